// Outgoing messages: sent to each peer in order, a few at a time.
#include "algo/decorator.h"
#include "algo/windows/message_service.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

namespace distwrap::algo::windows {
namespace {

constexpr int kFlying = 64;         // frames in flight to one peer
constexpr int kSegmentsFlying = 4;  // segments in flight of one message
constexpr size_t kWaiting = 128;    // messages queued for one peer before
                                    // callers wait

}  // namespace

uint64_t MessageService::expect(Request request) {
  base::MutexLock lock(mutex_);
  if (broken_) {
    request.pending->note(why_);
    return 0;
  }
  ++request.pending->replies;
  requests_.emplace(++last_request_, std::move(request));
  return last_request_;
}

int32_t MessageService::post(int peer, std::shared_ptr<OutgoingMessage> message,
                             bool may_wait, Deadline deadline,
                             dw_error* error) {
  base::MutexLock lock(mutex_);
  Outbound& out = out_[static_cast<size_t>(peer)];
  while (!broken_ && out.outgoing.size() >= kWaiting) {
    if (!may_wait) return DW_AGAIN;
    if (!changed_.wait_until(mutex_, deadline) &&
        out.outgoing.size() >= kWaiting)
      return fail(error, DW_DEADLINE_EXCEEDED, DW_REASON_TIMED_OUT,
                  "the target did not take earlier messages in time");
  }
  if (broken_) {
    if (error != nullptr) *error = why_;
    return why_.code;
  }
  out.outgoing.push_back(std::move(message));
  pump(peer);
  return DW_OK;
}

int32_t MessageService::launch(const std::shared_ptr<Pending>& pending,
                               dw_work* work, Deadline deadline,
                               dw_error* error) {
  {
    base::MutexLock lock(mutex_);
    --pending->replies;
    if (work != nullptr && !pending->over()) {
      pending->work = work;
      return DW_OK;
    }
  }
  const int32_t code = await(pending, deadline, error);
  return code == DW_OK ? int32_t{DW_DONE} : code;
}

int32_t MessageService::await(const std::shared_ptr<Pending>& pending,
                              Deadline deadline, dw_error* error) {
  base::MutexLock lock(mutex_);
  bool late = false;
  while (!pending->over() && !late)
    late = !changed_.wait_until(mutex_, deadline);
  if (!pending->over()) {
    const int32_t code = fail(error, DW_DEADLINE_EXCEEDED, DW_REASON_TIMED_OUT,
                              "the target did not answer in time");
    std::erase_if(requests_, [&](const auto& one) {
      return one.second.pending == pending;
    });
    pending->replies = 0;
    // The data in flight are the caller's memory, so their sends must be
    // stopped.
    if (pending->sends > 0) {
      dw_error why;
      fail(&why, DW_ABORTED, DW_REASON_ABORTED, "an operation was given up");
      break_off(why);
    }
    while (!pending->over()) changed_.wait(mutex_);
    return code;
  }
  if (pending->code != DW_OK && error != nullptr) *error = pending->error;
  return pending->code;
}

void MessageService::forget(const Pending& pending) {
  base::MutexLock lock(mutex_);
  std::erase_if(requests_, [&](const auto& one) {
    return one.second.pending.get() == &pending;
  });
}

void MessageService::pump(int peer) {
  Outbound& out = out_[static_cast<size_t>(peer)];
  while (!broken_ && !out.outgoing.empty()) {
    const std::shared_ptr<OutgoingMessage> message = out.outgoing.front();
    if (!begin_more(peer, message)) return;
    if (!message->has_all_begun) continue;
    out.outgoing.pop_front();
    changed_.notify_all();
  }
}

bool MessageService::begin_more(
    int peer, const std::shared_ptr<OutgoingMessage>& message) {
  if (out_[static_cast<size_t>(peer)].flying >= kFlying) return false;
  const FrameHeader& head = message->frame.head;
  if (!message->has_begun) {
    if (message->tells_of != nullptr)
      message->frame.head.code = message->tells_of->code;
    if (!begin(peer, message, reinterpret_cast<const char*>(&message->frame),
               sizeof(Frame), kFrameTag, nullptr))
      return false;
    message->has_begun = true;
    message->has_all_begun = message->frame.holds_all();
    return true;
  }
  if (message->flying >= kSegmentsFlying) return false;
  const uint64_t bytes = segment_at(message->begun, head.bytes);
  const char* data = nullptr;
  std::unique_ptr<char[]> held;
  if (message->part != nullptr) {
    held = std::make_unique_for_overwrite<char[]>(bytes);
    data = held.get();
    if (int32_t code = message->part->get(head.offset + message->begun,
                                          held.get(), bytes)) {
      message->code = code;
      std::memset(held.get(), 0, bytes);
    }
  } else {
    data = message->data + message->begun;
  }
  if (!begin(peer, message, data, bytes, kSegmentTag, std::move(held)))
    return false;
  message->begun += bytes;
  message->has_all_begun = message->begun == head.bytes;
  return true;
}

bool MessageService::begin(int peer,
                           const std::shared_ptr<OutgoingMessage>& message,
                           const char* data, uint64_t bytes, uint64_t tag,
                           std::unique_ptr<char[]> held) {
  auto one = std::make_unique<Sent>(*this);
  one->peer = peer;
  one->message = message;
  one->held = std::move(held);
  const int32_t code =
      submit(DW_OP_SEND, peer, const_cast<char*>(data), bytes, tag, *one);
  if (code == DW_AGAIN) starve();
  if (code != DW_OK) return false;
  one.release();
  ++message->flying;
  ++out_[static_cast<size_t>(peer)].flying;
  return true;
}

// Lets the thread try again.
void MessageService::starve() {
  base::MutexLock lock(landed_mutex_);
  starved_ = true;
  landed_.notify_one();
}

void Sent::handle() {
  service.sent(*this);
  delete this;
}

void MessageService::sent(Sent& one) {
  base::MutexLock lock(mutex_);
  --on_their_way_;
  --one.message->flying;
  --out_[static_cast<size_t>(one.peer)].flying;
  if (one.code != DW_OK) {
    if (one.error.peer < 0) one.error.peer = one.peer;
    break_off(one.error);
    if (one.message->pending != nullptr) one.message->pending->note(why_);
  }
  settle(*one.message);
  pump(one.peer);
}

void MessageService::settle(OutgoingMessage& message) {
  if (!message.has_all_begun || message.flying > 0 ||
      message.pending == nullptr)
    return;
  --message.pending->sends;
  settle(std::exchange(message.pending, nullptr));
}

void MessageService::settle(const std::shared_ptr<Pending>& pending) {
  if (!pending->over()) return;
  if (pending->work == nullptr) return changed_.notify_all();
  try {
    ended_.push_back(pending);
  } catch (const std::bad_alloc&) {  // the host is told here, under the lock
    backend_.host().complete(
        pending->work, pending->code,
        pending->code == DW_OK ? nullptr : &pending->error);
  }
}

void MessageService::drop_letters(const dw_error& why) {
  for (Outbound& out : out_)
    for (const std::shared_ptr<OutgoingMessage>& message :
         std::exchange(out.outgoing, {})) {
      if (message->pending != nullptr) message->pending->note(why);
      message->has_all_begun = true;
      settle(*message);
    }
}

}  // namespace distwrap::algo::windows
