// Messages that move in one step while no other message to or from that rank is
// open. They leave no state behind.
#include "backend.h"
#include "copy.h"
#include "messages.h"

#include <utility>

namespace shm_backend {

Messages::AtOnce Messages::move_at_once(const EngineOp& call) {
  const Lock::Hold hold(lock_);
  Peer& peer = peers_[static_cast<size_t>(call.peer)];
  return call.kind == DW_OP_SEND ? put_at_once(peer, call)
                                 : take_at_once(peer, call);
}

[[gnu::always_inline]] inline Messages::AtOnce Messages::put_at_once(
    Peer& peer, const EngineOp& call) {
  if (!peer.out.is_open() || !peer.sends.empty() || !peer.replies.empty())
    return AtOnce::kNo;
  const Piece data = call.in;
  RecordHead head = {Record::kWhole, call.type, 0, call.tag, data.bytes, 0};
  if (data.bytes <= Outbox::kInLine) [[likely]] {
    peer.has_answered = false;
    return peer.out.put_line(head, data.at, data.bytes) ? AtOnce::kDone
                                                        : AtOnce::kNo;
  }
  if (data.bytes <= peer.out.most())
    return peer.out.put(head, data.at, data.bytes, is_awaited(peer))
               ? AtOnce::kDone
               : AtOnce::kNo;
  head.kind = Record::kAsk;
  head.id = peer.next_id + 1;
  if (data.bytes > kChunkBytes || lends(peer, data.bytes, head.id) ||
      !put_chunk(call.peer, data.at, data.bytes, kSpareChunks, &head.place) ||
      !put_head(peer, head))
    return AtOnce::kNo;
  peer.next_id = head.id;
  return AtOnce::kDone;
}

[[gnu::always_inline]] inline Messages::AtOnce Messages::take_at_once(
    Peer& peer, const EngineOp& call) {
  if (!peer.receives.empty() || !peer.early.empty()) return AtOnce::kNo;
  const Line* const line = peer.in.next();
  if (line == nullptr) return AtOnce::kNotYet;
  const RecordHead head = line->head;
  const Piece data = call.out;
  if (head.tag != call.tag || head.bytes != data.bytes ||
      head.type != call.type)
    return AtOnce::kNo;
  if (head.kind == Record::kWhole && peer.in.can_hold(data.bytes)) [[likely]] {
    copy(data.at, line->inside, data.bytes);
    peer.in.take(data.bytes);
  } else {
    if (head.kind != Record::kAsk || data.bytes > kChunkBytes ||
        peer.lending.is_try(data.bytes, head.id))
      return AtOnce::kNo;
    const char* const from =
        Pool::find(comm_->room, call.peer, head.place, data.bytes);
    if (head.place == 0 || from == nullptr) return AtOnce::kNo;
    Pool::fetch(head.place, data.at, from, data.bytes, false);
    Pool::give_back(comm_->room, call.peer, head.place);
    peer.in.take(0);
  }
  peer.has_answered = true;
  return AtOnce::kDone;
}

// Whether the receiver reads this message in the sender's memory.
bool Messages::lends(Peer& peer, size_t bytes, uint32_t id) {
  return peer.lending.lends(bytes, id) && peer.reach.works();
}

// Sends the head of a message whose data, or first data, are in a chunk. False
// when there is no room.
bool Messages::put_head(Peer& peer, const RecordHead& head) {
  if (!peer.out.put_line(head, nullptr, 0)) {
    Pool::give_back(comm_->room, comm_->rank, head.place);
    return false;
  }
  if (is_awaited(peer)) pool_.prepare_next();
  return true;
}

// Whether the receiver may be waiting for this message on a processor of its
// own.
bool Messages::is_awaited(Peer& peer) const {
  return std::exchange(peer.has_answered, false) && !comm_->oversubscribed;
}

}  // namespace shm_backend
