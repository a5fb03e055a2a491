#include "messages.h"

#include "backend.h"
#include "copy.h"
#include "sdk/fail.h"

#include <algorithm>
#include <new>
#include <utility>

namespace shm_backend {
namespace {

// Records of one peer before the next one's turn.
constexpr int kTurn = 64;

bool fits(const Message& message, const RecordHead& head) {
  return message.tag == head.tag && message.data.bytes == head.bytes;
}

bool is_open(const Message& message) {
  return message.state.load(std::memory_order_relaxed) == Message::State::kOpen;
}

}  // namespace

Messages::~Messages() {
  for (Message* const message : ended_) delete message;
}

void Messages::attach(Comm* comm) {
  comm_ = comm;
  pool_.attach(comm->room);
  distances_.attach(*comm->host, comm->rank, comm->room.pulses());
  peers_ = std::make_unique<Peer[]>(static_cast<size_t>(comm->size));
  for (int rank = 0; rank < comm->size; ++rank) {
    if (rank == comm->rank) continue;
    peers_[static_cast<size_t>(rank)].out.attach(comm->room, rank);
    peers_[static_cast<size_t>(rank)].in.attach(comm->room, rank);
    peers_[static_cast<size_t>(rank)].reach.attach(comm->room, rank);
  }
}

std::span<Messages::Peer> Messages::peers() const {
  return {peers_.get(),
          peers_ == nullptr ? 0 : static_cast<size_t>(comm_->size)};
}

void Messages::begin(Message* message) {
  LazyLock::Hold hold(lock_);
  begin_locked(message);
  message->awaited = is_open(*message);
  complete_ended(hold);
}

int32_t Messages::start(const Call& call, dw_work* work) {
  auto message = std::make_unique<Message>(call);
  LazyLock::Hold hold(lock_);
  begin_locked(message.get());
  const bool done =
      message->state.load(std::memory_order_relaxed) == Message::State::kDone;
  if (!done) {
    message.release()->work = work;
    begun_works_.fetch_add(1, std::memory_order_relaxed);
    open_works_.fetch_add(1, std::memory_order_release);
  }
  const bool wakes = std::exchange(awaited_ended_, false);
  complete_ended(hold);
  if (wakes) comm_->room.wake(comm_->rank);
  return done ? DW_DONE : DW_OK;
}

void Messages::begin_locked(Message* message) {
  Peer& peer = peers_[static_cast<size_t>(message->peer)];
  if (message->sends) {
    message->id = ++peer.next_id;
    if (!peer.sends.empty() || !post_send(peer, message))
      peer.sends.push_back(message);
  } else {
    post_receive(peer, message);
    drain(peer, message->peer, message);
  }
}

// A mailbox has memory from its first record on. Without it the group breaks.
bool Messages::can_send(Peer& peer) {
  if (peer.out.is_open()) [[likely]]
    return true;
  dw_error why = {};
  if (peer.out.open(&why) == DW_OK) return true;
  comm_->failure.fail(why, nullptr);
  return false;
}

// Head and, if possible, data. False when there is no room.
bool Messages::post_send(Peer& peer, Message* message) {
  const Piece data = message->data;
  RecordHead head = {Record::kWhole, message->id, message->tag, data.bytes, 0};
  if (!peer.replies.empty() || !can_send(peer)) return false;
  if (data.bytes <= peer.out.most()) {
    if (!peer.out.put(head, data.at, data.bytes)) return false;
    end(message);
    return true;
  }
  if (lends(peer, data.bytes, message->id)) {
    head.kind = Record::kLend;
    head.place = reinterpret_cast<uintptr_t>(data.at);
    if (!peer.out.put(head, nullptr, 0)) return false;
    message->lent = true;
    peer.asked.push_back(message);
    return true;
  }
  head.kind = Record::kAsk;
  const size_t first = std::min(data.bytes, kChunkBytes);
  if (put_chunk(message->peer, data.at, first, kSpareChunks, &head.place)) {
    if (!put_head(peer, head)) return false;
    message->moved = first;
  } else {
    head.place = 0;
    if (!peer.out.put(head, nullptr, 0)) return false;
  }
  if (message->moved == data.bytes)
    end(message);
  else
    peer.asked.push_back(message);
  return true;
}

void Messages::post_receive(Peer& peer, Message* message) {
  const auto found =
      std::find_if(peer.early.begin(), peer.early.end(),
                   [&](const Early& one) { return fits(*message, one.head); });
  if (found == peer.early.end()) {
    peer.receives.push_back(message);
    return;
  }
  const Early early = std::move(*found);
  peer.early.erase(found);
  if (!deliver(peer, message->peer, message, early.head, early.data.data()))
    break_by(message->peer);
}

void Messages::progress(int peer) { move_all(peer); }

void Messages::progress_for_others() {
  if (move_all(-1)) comm_->room.wake(comm_->rank);
}

bool Messages::move_all(int peer) {
  LazyLock::Hold hold(lock_, std::try_to_lock);
  if (!hold.owns()) return false;
  try {
    if (peer >= 0) move(peer);
    for (int rank = 0; rank < comm_->size && peer < 0; ++rank)
      if (rank != comm_->rank) move(rank);
  } catch (const std::bad_alloc&) {
    dw_error why = {};
    dw_fail(&why, DW_RESOURCE_EXHAUSTED, DW_REASON_OUT_OF_MEMORY, -1, 0,
            "shm: no memory for messages that came before their receives");
    comm_->failure.fail(why, nullptr);
  }
  const bool awaited_ended = std::exchange(awaited_ended_, false);
  complete_ended(hold);
  return awaited_ended;
}

void Messages::move(int rank) {
  Peer& peer = peers_[static_cast<size_t>(rank)];
  drain(peer, rank);
  while (!peer.replies.empty() && can_send(peer) &&
         peer.out.put(peer.replies.front(), nullptr, 0))
    peer.replies.pop_front();
  while (!peer.sends.empty() && post_send(peer, peer.sends.front()))
    peer.sends.pop_front();
  for (size_t i = 0; i < peer.streams.size();)
    if (stream(peer, peer.streams[i]))
      peer.streams.erase(peer.streams.begin() + static_cast<long>(i));
    else
      ++i;
  while (!peer.borrowed.empty() &&
         read_there(peer, rank, peer.borrowed.front()))
    peer.borrowed.pop_front();
}

void Messages::drain(Peer& peer, int rank, const Message* awaited) {
  for (int i = 0; i < kTurn; ++i) {
    if (awaited != nullptr && !is_open(*awaited)) return;
    RecordHead head;
    const void* data;
    switch (peer.in.look(&head, &data)) {
      case Inbox::Found::kNothing:
        return;
      case Inbox::Found::kNonsense:
        return break_by(rank);
      case Inbox::Found::kRecord:
        if (!handle(peer, rank, head, data)) return break_by(rank);
        peer.in.take();
    }
  }
}

bool Messages::handle(Peer& peer, int rank, const RecordHead& head,
                      const void* data) {
  switch (head.kind) {
    case Record::kWhole:
    case Record::kAsk:
    case Record::kLend:
      return match(peer, rank, head, data);
    case Record::kGot: {
      const Message* const lent = find_by_id(peer.asked, head.id);
      if (lent == nullptr || !lent->lent) return false;
      peer.lending.heard(head.tag);
      end(take_by_id(peer.asked, head.id));
      return true;
    }
    case Record::kGo: {
      Message* const message = take_by_id(peer.asked, head.id);
      if (message == nullptr) return false;
      peer.streams.push_back(message);
      return true;
    }
    case Record::kChunk:
    case Record::kPart:
      return take_more(peer, rank, head, data);
    default:
      return false;
  }
}

bool Messages::match(Peer& peer, int rank, const RecordHead& head,
                     const void* data) {
  peer.has_answered = true;
  const auto found =
      std::find_if(peer.receives.begin(), peer.receives.end(),
                   [&](const Message* one) { return fits(*one, head); });
  if (found != peer.receives.end()) {
    Message* const message = *found;
    peer.receives.erase(found);
    return deliver(peer, rank, message, head, data);
  }
  Early early = {head, {}};
  if (head.kind == Record::kWhole) {
    const char* const bytes = static_cast<const char*>(data);
    early.data.assign(bytes, bytes + head.bytes);
  }
  peer.early.push_back(std::move(early));
  return true;
}

void Messages::reply(Peer& peer, const RecordHead& head) {
  if (!peer.replies.empty() || !can_send(peer) ||
      !peer.out.put(head, nullptr, 0))
    peer.replies.push_back(head);
}

void Messages::end(Message* message) {
  // Before the state, after which the owner may drop it.
  if (message->work != nullptr) ended_.push_back(message);
  awaited_ended_ |= message->awaited;
  message->state.store(Message::State::kDone, std::memory_order_release);
}

void Messages::break_by(int rank) {
  dw_error why = {};
  dw_fail(&why, DW_INTERNAL, DW_REASON_BACKEND_FAILED, rank, 0,
          "shm: what a rank wrote to shared memory makes no sense");
  comm_->failure.fail(why, nullptr);
}

void Messages::complete_ended(LazyLock::Hold& hold) {
  if (ended_.empty()) [[likely]]
    return;
  const std::vector<Message*> ended = std::exchange(ended_, {});
  hold.release();
  for (Message* const message : ended) {
    comm_->host->complete(message->work, DW_OK, nullptr);
    delete message;
  }
  open_works_.fetch_sub(static_cast<int>(ended.size()),
                        std::memory_order_release);
}

void Messages::fail_all(const dw_error& why) {
  std::vector<Message*> failed;
  {
    const LazyLock::Hold hold(lock_);
    // First: who reads what was lent must not take what follows there for it.
    for (const Peer& peer : peers())
      if (std::any_of(peer.asked.begin(), peer.asked.end(),
                      [](const Message* one) { return one->lent; }))
        comm_->room.leave(State::kAborted);
    const auto fail = [&failed](Message* message) {
      if (message->work != nullptr) failed.push_back(message);
      message->state.store(Message::State::kFailed, std::memory_order_release);
    };
    for (Peer& peer : peers()) {
      for (Message* one : std::exchange(peer.sends, {})) fail(one);
      for (Message* one : std::exchange(peer.asked, {})) fail(one);
      for (Message* one : std::exchange(peer.streams, {})) fail(one);
      for (Message* one : std::exchange(peer.receives, {})) fail(one);
      for (Message* one : std::exchange(peer.taking, {})) fail(one);
      for (Message* one : std::exchange(peer.borrowed, {})) fail(one);
    }
  }
  for (Message* const message : failed) {
    comm_->host->complete(message->work, why.code, &why);
    delete message;
  }
  open_works_.fetch_sub(static_cast<int>(failed.size()),
                        std::memory_order_release);
}

bool Messages::awaits(int rank) {
  const LazyLock::Hold hold(lock_);
  const Peer& peer = peers_[static_cast<size_t>(rank)];
  return !peer.sends.empty() || !peer.asked.empty() || !peer.streams.empty() ||
         !peer.receives.empty() || !peer.taking.empty() ||
         !peer.borrowed.empty();
}

}  // namespace shm_backend
