#include "messages.h"

#include "backend.h"
#include "copy.h"
#include "sdk/fail.h"
#include "sdk/guard.h"
#include "sdk/message_mismatch.h"

#include <algorithm>
#include <new>
#include <utility>

namespace shm_backend {
namespace {

// Records handled for one peer before the next peer's turn.
constexpr int kTurn = 64;

bool fits(const Message& message, const RecordHead& head) {
  return message.data.bytes == head.bytes && message.type == head.type;
}

bool is_open(const Message& message) {
  return message.state.load(std::memory_order_relaxed) == Message::State::kOpen;
}

}  // namespace

Messages::~Messages() {
  while (ended_ != nullptr) delete std::exchange(ended_, ended_->next);
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
  Lock::Hold hold(lock_);
  begin_locked(message);
  message->awaited = is_open(*message);
  complete_ended(hold);
}

int32_t Messages::start(const EngineOp& call, dw_work* work) {
  auto message = std::make_unique<Message>(call);
  Lock::Hold hold(lock_);
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

// Strong exception guarantee: a message that cannot begin is in no list.
void Messages::begin_locked(Message* message) try {
  Peer& peer = peers_[static_cast<size_t>(message->peer)];
  if (message->sends) {
    message->id = ++peer.next_id;
    if (!peer.sends.empty() || !post_send(peer, message))
      keep(peer.sends, message);
  } else {
    post_receive(peer, message);
    drain(peer, message->peer, message);
  }
} catch (...) {
  Peer& peer = peers_[static_cast<size_t>(message->peer)];
  std::erase(peer.sends, message);
  std::erase(peer.borrowed, message);
  for (auto* const list :
       {&peer.asked, &peer.streams, &peer.receives, &peer.taking})
    std::erase(*list, message);
  throw;
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

// Sends the head and, if possible, data. False when there is no room.
bool Messages::post_send(Peer& peer, Message* message) {
  const Piece data = message->data;
  RecordHead head = {Record::kWhole, message->type, message->id,
                     message->tag,   data.bytes,    0};
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
    keep(peer.asked, message);
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
    keep(peer.asked, message);
  return true;
}

void Messages::post_receive(Peer& peer, Message* message) {
  const auto found = std::find_if(
      peer.early.begin(), peer.early.end(),
      [&](const Early& one) { return one.head.tag == message->tag; });
  if (found == peer.early.end()) {
    keep(peer.receives, message);
    return;
  }
  const Early early = std::move(*found);
  peer.early.erase(found);
  if (!fits(*message, early.head))
    return refuse(peer, message->peer, message, early.head);
  if (!deliver(peer, message->peer, message, early.head, early.data.data()))
    break_by(message->peer);
}

void Messages::progress(int peer) { move_all(peer); }

void Messages::progress_for_others() {
  if (move_all(-1)) comm_->room.wake(comm_->rank);
}

bool Messages::move_all(int peer) {
  Lock::Hold hold(lock_, std::try_to_lock);
  if (!hold.owns()) return false;
  dw_error why = {};
  try {
    if (peer >= 0) move(peer);
    for (int rank = 0; rank < comm_->size && peer < 0; ++rank)
      if (rank != comm_->rank) move(rank);
  } catch (const std::bad_alloc&) {
    dw_sdk::fail_memory("shm: messages under way", &why);
    comm_->failure.fail(why, nullptr);
  }
  const bool awaited_ended = std::exchange(awaited_ended_, false);
  complete_ended(hold);
  if (why.code != DW_OK) {
    hold.release();
    fail_all(why);
  }
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
      keep(peer.streams, message);
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
                   [&](const Message* one) { return one->tag == head.tag; });
  if (found != peer.receives.end()) {
    Message* const message = *found;
    peer.receives.erase(found);
    if (fits(*message, head)) return deliver(peer, rank, message, head, data);
    refuse(peer, rank, message, head);
    return true;
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
  // Linked before the state is set, after which the owner may free it.
  if (message->work != nullptr) message->next = std::exchange(ended_, message);
  awaited_ended_ |= message->awaited;
  message->state.store(Message::State::kDone, std::memory_order_release);
}

// The communicator breaks, and the receive ends with it. The host tells the
// sender, which may have returned long ago.
void Messages::refuse(Peer& peer, int rank, Message* message,
                      const RecordHead& head) {
  keep(peer.differing, message);
  dw_error why = {};
  dw_sdk::fail_message_mismatch(
      {comm_->rank, message->type, message->data.bytes},
      {rank, head.type, head.bytes}, head.tag, &why);
  comm_->failure.fail(why, nullptr);
}

void Messages::break_by(int rank) {
  dw_error why = {};
  dw_fail(&why, DW_INTERNAL, DW_REASON_BACKEND_FAILED, rank, 0,
          "shm: a rank wrote invalid data to shared memory");
  comm_->failure.fail(why, nullptr);
}

void Messages::complete_ended(Lock::Hold& hold) {
  if (ended_ == nullptr) [[likely]]
    return;
  // Reverses the list: works complete in the order in which they ended.
  Message* first = nullptr;
  for (Message* one = std::exchange(ended_, nullptr); one != nullptr;)
    first = std::exchange(one, std::exchange(one->next, first));
  hold.release();
  int ended = 0;
  for (; first != nullptr; ++ended) {
    const std::unique_ptr<Message> message(std::exchange(first, first->next));
    comm_->host->complete(message->work, DW_OK, nullptr);
  }
  open_works_.fetch_sub(ended, std::memory_order_release);
}

void Messages::fail_all(const dw_error& why) {
  Message* failed;
  {
    const Lock::Hold hold(lock_);
    // The state is set first, so that a rank that reads lent memory does not
    // take later data for the message's.
    for (const Peer& peer : peers())
      if (std::any_of(peer.asked.begin(), peer.asked.end(),
                      [](const Message* one) { return one->lent; }))
        comm_->room.leave(State::kAborted);
    failed = std::exchange(lost_, nullptr);
    const auto fail = [&failed](auto& list) {
      for (Message* const message : list) {
        if (message->work != nullptr)
          message->next = std::exchange(failed, message);
        message->state.store(Message::State::kFailed,
                             std::memory_order_release);
      }
      list.clear();
    };
    for (Peer& peer : peers()) {
      fail(peer.sends);
      fail(peer.asked);
      fail(peer.streams);
      fail(peer.receives);
      fail(peer.taking);
      fail(peer.borrowed);
      fail(peer.differing);
    }
  }
  int ended = 0;
  for (; failed != nullptr; ++ended) {
    const std::unique_ptr<Message> message(std::exchange(failed, failed->next));
    comm_->host->complete(message->work, why.code, &why);
  }
  open_works_.fetch_sub(ended, std::memory_order_release);
}

bool Messages::awaits(int rank) {
  const Lock::Hold hold(lock_);
  const Peer& peer = peers_[static_cast<size_t>(rank)];
  return !peer.sends.empty() || !peer.asked.empty() || !peer.streams.empty() ||
         !peer.receives.empty() || !peer.taking.empty() ||
         !peer.borrowed.empty();
}

}  // namespace shm_backend
