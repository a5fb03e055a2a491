// Incoming messages: served in the order in which each peer sent them.
#include "algo/decorator.h"
#include "algo/windows/message_service.h"

#include <cstring>
#include <utility>

namespace distwrap::algo::windows {
namespace {

bool is_for_a_part(What what) {
  return what != What::kData && what != What::kReply;
}

// The error of this rank for the target's result code.
dw_error refusal(int32_t code, int peer) {
  dw_error error;
  if (code == DW_FAILED_PRECONDITION)
    algo::fail(&error, code, DW_REASON_STALE_EPOCH,
               "the target has ended the window");
  else
    algo::fail(&error, code, DW_REASON_BACKEND_FAILED,
               "the target could not run the operation");
  error.peer = peer;
  return error;
}

}  // namespace

void MessageService::receive(Received& one, void* to, uint64_t bytes,
                             uint64_t tag) {
  one.to = to;
  one.bytes = bytes;
  one.tag = tag;
  one.is_there = false;
  hungry_.push_back(&one);
  post_receives();
}

// Posted in order: the first receive gets the first message.
void MessageService::post_receives() {
  base::MutexLock lock(mutex_);
  while (!broken_ && !hungry_.empty()) {
    Received& one = *hungry_.front();
    if (submit(DW_OP_RECV, one.from.peer, one.to, one.bytes, one.tag, one) ==
        DW_AGAIN)
      return;
    hungry_.pop_front();
  }
  hungry_.clear();
}

void Received::handle() { service.received(*this); }

void MessageService::received(Received& one) {
  Inbound& from = one.from;
  {
    base::MutexLock lock(mutex_);
    --on_their_way_;
    if (one.code != DW_OK) {
      if (one.error.peer < 0) one.error.peer = from.peer;
      break_off(one.error);
    }
    if (broken_) return;
  }
  one.is_there = true;
  if (one.tag == kSegmentTag)
    take_segments(from);
  else
    take_frames(from);
}

// The backend may report messages in another order than they arrived.
void MessageService::take_frames(Inbound& from) {
  while (!from.takes_segments && from.frames[from.next_frame].is_there) {
    Frame& space = from.spaces[from.next_frame];
    const Frame frame = space;
    receive(from.frames[from.next_frame], &space, sizeof(Frame), kFrameTag);
    from.next_frame = (from.next_frame + 1) % Inbound::kFrames;
    from.head = frame.head;
    begin_message(from);
    if (frame.holds_all()) {
      take(from, frame.data, 0, from.head.bytes);
      finish(from, frame.data);
    } else {
      from.takes_segments = true;
      ask(from);
    }
  }
}

void MessageService::begin_message(Inbound& from) {
  const FrameHeader& head = from.head;
  from.code = DW_OK;
  from.asked = from.taken = 0;
  from.ask_with = from.take_from = 0;
  if (!is_for_a_part(head.what)) return;
  {
    base::MutexLock lock(mutex_);
    const auto found = parts_.find(head.window);
    if (found != parts_.end()) from.part = found->second;
  }
  if (from.part == nullptr) {
    // A peer that has ended the window needs no answer that this rank has ended
    // it.
    if (head.what != What::kClose) from.code = DW_FAILED_PRECONDITION;
  } else if (!head.is_sound(from.part->bytes())) {
    from.code = DW_INVALID_ARGUMENT;
  } else if (head.what == What::kFetchOp || head.what == What::kCompareSwap) {
    from.result = std::make_unique<char[]>(head.wanted);
  }
}

void MessageService::ask(Inbound& from) {
  while (from.asked < from.head.bytes &&
         from.asked - from.taken < Inbound::kAhead * kSegment) {
    const size_t with = from.ask_with;
    const uint64_t bytes = segment_at(from.asked, from.head.bytes);
    if (from.staging[with] == nullptr)
      from.staging[with] = std::make_unique_for_overwrite<char[]>(kSegment);
    from.asked += bytes;
    from.ask_with = (with + 1) % Inbound::kAhead;
    receive(from.segments[with], from.staging[with].get(), bytes, kSegmentTag);
  }
}

void MessageService::take_segments(Inbound& from) {
  while (from.taken < from.asked && from.segments[from.take_from].is_there) {
    Received& one = from.segments[from.take_from];
    one.is_there = false;
    take(from, from.staging[from.take_from].get(), from.taken, one.bytes);
    from.taken += one.bytes;
    from.take_from = (from.take_from + 1) % Inbound::kAhead;
    ask(from);
  }
  if (from.taken != from.head.bytes) return;
  finish(from, nullptr);
  from.takes_segments = false;
  take_frames(from);
}

void MessageService::take(Inbound& from, const char* data, uint64_t at,
                          uint64_t bytes) {
  if (from.code == DW_OK) from.code = serve(from, data, at, bytes);
}

int32_t MessageService::serve(Inbound& from, const char* data, uint64_t at,
                              uint64_t bytes) {
  const FrameHeader& head = from.head;
  const uint64_t element = head.element();
  switch (head.what) {
    case What::kPut:
      return from.part->put(head.offset + at, data, bytes);
    case What::kAccumulate:
    case What::kFetchOp: {
      const dw_host_api& host = backend_.host();
      const dw_reduce_fn kernel =
          host.reduce_kernel(host.self, head.dtype(), head.reduce);
      if (kernel == nullptr || element == 0) return DW_UNIMPLEMENTED;
      char* const old =
          head.what == What::kFetchOp ? from.result.get() + at : nullptr;
      return from.part->reduce(head.offset + at, data, old, bytes / element,
                               element, kernel);
    }
    case What::kCompareSwap:
      return from.part->compare_swap(head.offset, data, from.result.get(),
                                     element);
    case What::kData:
      return keep_result(from, data, at, bytes);
    default:
      return DW_OK;
  }
}

void MessageService::finish(Inbound& from, const char* data) {
  const FrameHeader& head = from.head;
  if (head.what == What::kReply) {
    replied(from, data);
  } else if (head.what != What::kData) {
    if (head.signal_how != 0 && from.code == DW_OK)
      from.code =
          from.part->raise(from.peer, head.signal, head.signal_how, head.value);
    if (head.what == What::kClose && from.part != nullptr)
      from.part->peer_closed(from.peer);
    if (head.request != 0) answer(from, head.what == What::kGet);
  }
  from.part = nullptr;
  from.result = nullptr;
}

void MessageService::answer(Inbound& from, bool from_part) {
  const FrameHeader& asked = from.head;
  const auto reply = std::make_shared<OutgoingMessage>();
  reply->frame.head.what = What::kReply;
  reply->frame.head.request = asked.request;
  const uint64_t bytes = from.code == DW_OK ? asked.wanted : 0;
  std::shared_ptr<OutgoingMessage> result;
  if (bytes > Frame::kData) {
    result = std::make_shared<OutgoingMessage>();
    result->frame.head.what = What::kData;
    result->frame.head.request = asked.request;
    result->frame.head.bytes = bytes;
    if (from_part) {
      result->part = from.part;
      result->frame.head.offset = asked.offset;
    } else {
      result->data = from.result.get();
      result->result = std::move(from.result);
    }
    reply->tells_of = result;
  } else if (bytes > 0) {
    reply->frame.head.bytes = bytes;
    if (from_part)
      from.code = from.part->get(asked.offset, reply->frame.data, bytes);
    else
      std::memcpy(reply->frame.data, from.result.get(), bytes);
  }
  reply->frame.head.code = from.code;
  base::MutexLock lock(mutex_);
  if (broken_) return;
  auto& outgoing = out_[static_cast<size_t>(from.peer)].outgoing;
  if (result != nullptr) outgoing.push_back(std::move(result));
  outgoing.push_back(reply);
  pump(from.peer);
}

// ---- answers to this rank's requests ----

int32_t MessageService::keep_result(const Inbound& from, const char* data,
                                    uint64_t at, uint64_t bytes) {
  base::MutexLock lock(mutex_);
  const auto found = requests_.find(from.head.request);
  if (found == requests_.end()) return DW_OK;  // given up
  const Request& request = found->second;
  if (request.peer != from.peer || at > request.bytes ||
      bytes > request.bytes - at)
    return DW_INVALID_ARGUMENT;
  if (bytes != 0) std::memcpy(request.out + at, data, bytes);
  return DW_OK;
}

void MessageService::replied(const Inbound& from, const char* data) {
  int32_t code = from.head.code;
  if (data == nullptr)  // a reply's data always fit into a frame
    code = DW_INVALID_ARGUMENT;
  else if (code == DW_OK)
    code = keep_result(from, data, 0, from.head.bytes);
  base::MutexLock lock(mutex_);
  const auto found = requests_.find(from.head.request);
  if (found == requests_.end() || found->second.peer != from.peer) return;
  const Request request = std::move(found->second);
  requests_.erase(found);
  if (code != DW_OK) {
    request.pending->note(refusal(code, from.peer));
  } else if (request.flushed != nullptr) {
    uint64_t before = request.flushed->load();
    while (before < request.flushes &&
           !request.flushed->compare_exchange_weak(before, request.flushes)) {
    }
  }
  --request.pending->replies;
  settle(request.pending);
}

}  // namespace distwrap::algo::windows
