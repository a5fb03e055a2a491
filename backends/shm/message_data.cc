// Moves the data of matched messages: out of records and chunks, into chunks,
// and out of the sender's memory.
#include "backend.h"
#include "copy.h"
#include "messages.h"

#include <algorithm>

namespace shm_backend {
namespace {

// Bytes read in one peer's memory before the next peer's turn.
constexpr size_t kReadTurn = 512 << 10;
// Writing a chunk takes about twice as long as reading it, since its lines have
// to come back from the receiver first.
constexpr int64_t kWriteOfReads = 2;

}  // namespace

Message* take_by_id(std::vector<Message*>& all, uint32_t id) {
  for (Message*& one : all)
    if (one->id == id) {
      Message* const found = one;
      all.erase(all.begin() + (&one - all.data()));
      return found;
    }
  return nullptr;
}

Message* find_by_id(const std::vector<Message*>& all, uint32_t id) {
  for (Message* const one : all)
    if (one->id == id) return one;
  return nullptr;
}

bool Messages::deliver(Peer& peer, int rank, Message* message,
                       const RecordHead& head, const void* data) {
  const Piece to = message->data;
  if (head.kind == Record::kWhole) {
    copy(to.at, data, to.bytes);
    end(message);
    return true;
  }
  message->id = head.id;
  const dw_host_api& host = *comm_->host;
  const bool is_try = peer.lending.is_try(to.bytes, head.id);
  if (is_try) message->began_ns = host.now_ns(host.self);
  if (head.kind == Record::kLend) {
    if (peer.reach.works()) {
      message->lent = true;
      message->from = head.place;
      keep(peer.borrowed, message);
    } else {
      keep(peer.taking, message);
      reply(peer, {Record::kGo, 0, head.id, 0, 0, 0});
    }
    return true;
  }
  if (head.place != 0) message->moved = std::min(to.bytes, kChunkBytes);
  const bool more = message->moved < to.bytes;
  if (more) {
    // The sender copies the next data meanwhile.
    keep(peer.taking, message);
    reply(peer, {Record::kGo, 0, head.id, 0, 0, 0});
  }
  if (head.place != 0) {
    const char* const from =
        Pool::find(comm_->room, rank, head.place, message->moved);
    if (from == nullptr) return false;
    const int64_t began = is_try ? host.now_ns(host.self) : 0;
    Pool::fetch(head.place, to.at, from, message->moved,
                outgrow_caches(to.bytes, comm_->size));
    // The sender wrote the first data before this rank knew of the message.
    if (is_try)
      message->began_ns -= kWriteOfReads * (host.now_ns(host.self) - began);
    Pool::give_back(comm_->room, rank, head.place);
  }
  if (!more) {
    measure(peer, *message);
    end(message);
  }
  return true;
}

bool Messages::take_more(Peer& peer, int rank, const RecordHead& head,
                         const void* data) {
  Message* const message = find_by_id(peer.taking, head.id);
  if (message == nullptr || head.bytes > message->data.bytes - message->moved)
    return false;
  const auto bytes = static_cast<size_t>(head.bytes);
  if (head.kind == Record::kChunk) {
    data = Pool::find(comm_->room, rank, head.place, bytes);
    if (data == nullptr) return false;
  }
  if (head.kind == Record::kChunk)
    Pool::fetch(head.place, message->data.at + message->moved, data, bytes,
                outgrow_caches(message->data.bytes, comm_->size));
  else
    copy(message->data.at + message->moved, data, bytes);
  message->moved += bytes;
  if (head.kind == Record::kChunk)
    Pool::give_back(comm_->room, rank, head.place);
  if (message->moved == message->data.bytes) {
    take_by_id(peer.taking, head.id);
    measure(peer, *message);
    end(message);
  }
  return true;
}

// Reads data in the sender's memory. True when all have been read.
bool Messages::read_there(Peer& peer, int rank, Message* message) {
  const Piece to = message->data;
  const size_t bytes = std::min(to.bytes - message->moved, kReadTurn);
  const Reach::Got got = peer.reach.read(to.at + message->moved,
                                         message->from + message->moved, bytes);
  // A sender that has given up announces that before its memory is used again.
  if (got == Reach::Got::kGone || comm_->room.state(rank) != State::kOpen)
    return false;
  if (got == Reach::Got::kNonsense) {
    break_by(rank);
    return false;
  }
  message->moved += bytes;
  if (message->moved < to.bytes) return false;
  measure(peer, *message);
  reply(peer, {Record::kGot, 0, message->id, peer.lending.preferred(), 0, 0});
  end(message);
  return true;
}

// Sends the next chunks. True when all data have been sent.
bool Messages::stream(Peer& peer, Message* message) {
  const Piece data = message->data;
  while (message->moved < data.bytes) {
    const char* const from = data.at + message->moved;
    RecordHead head = {Record::kChunk, 0, message->id, 0, 0, 0};
    size_t bytes = std::min(data.bytes - message->moved, kChunkBytes);
    if (put_chunk(message->peer, from, bytes, 0, &head.place)) {
      head.bytes = bytes;
      if (!peer.out.put(head, nullptr, 0)) {
        Pool::give_back(comm_->room, comm_->rank, head.place);
        return false;
      }
    } else if (pool_.missing()) {
      bytes = std::min(bytes, peer.out.most());
      head.kind = Record::kPart;
      head.bytes = bytes;
      if (!peer.out.put(head, from, bytes)) return false;
    } else {
      return false;
    }
    message->moved += bytes;
  }
  end(message);
  return true;
}

// Adds the time of a finished receive to the tuning.
void Messages::measure(Peer& peer, const Message& message) {
  if (message.began_ns == 0) [[likely]]
    return;
  const dw_host_api& host = *comm_->host;
  peer.lending.took(message.data.bytes, message.lent,
                    host.now_ns(host.self) - message.began_ns);
}

}  // namespace shm_backend
