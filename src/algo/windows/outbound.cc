// What this rank sends: letters to each peer in their order, of which a few are
// on their way at a time.
#include "algo/decorator.h"
#include "algo/windows/courier.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace distwrap::algo::windows {
namespace {

constexpr int kFlying = 64;         // messages to one peer
constexpr int kSegmentsFlying = 4;  // of one letter
constexpr size_t kWaiting = 128;    // letters to one peer, before callers wait

}  // namespace

uint64_t Courier::expect(Request request) {
  base::MutexLock lock(mutex_);
  if (broken_) {
    request.pending->note(why_);
    return 0;
  }
  ++request.pending->replies;
  requests_.emplace(++last_request_, std::move(request));
  return last_request_;
}

int32_t Courier::post(int peer, std::shared_ptr<Letter> letter, bool may_wait,
                      Deadline deadline, dw_error* error) {
  base::MutexLock lock(mutex_);
  Outbound& out = out_[static_cast<size_t>(peer)];
  while (!broken_ && out.letters.size() >= kWaiting) {
    if (!may_wait) return DW_AGAIN;
    if (!changed_.wait_until(mutex_, deadline) &&
        out.letters.size() >= kWaiting)
      return fail(error, DW_DEADLINE_EXCEEDED, DW_REASON_TIMED_OUT,
                  "the target did not take what was sent before in time");
  }
  if (broken_) {
    if (error != nullptr) *error = why_;
    return why_.code;
  }
  out.letters.push_back(std::move(letter));
  pump(peer);
  return DW_OK;
}

int32_t Courier::launch(const std::shared_ptr<Pending>& pending, dw_work* work,
                        Deadline deadline, dw_error* error) {
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

int32_t Courier::await(const std::shared_ptr<Pending>& pending,
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
    // What is being sent is the caller's: nothing may go on in it.
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

void Courier::forget(const Pending& pending) {
  base::MutexLock lock(mutex_);
  std::erase_if(requests_, [&](const auto& one) {
    return one.second.pending.get() == &pending;
  });
}

void Courier::pump(int peer) {
  Outbound& out = out_[static_cast<size_t>(peer)];
  while (!broken_ && !out.letters.empty()) {
    const std::shared_ptr<Letter> letter = out.letters.front();
    if (!begin_more(peer, letter)) return;
    if (!letter->has_all_begun) continue;
    out.letters.pop_front();
    changed_.notify_all();
  }
}

bool Courier::begin_more(int peer, const std::shared_ptr<Letter>& letter) {
  if (out_[static_cast<size_t>(peer)].flying >= kFlying) return false;
  const Head& head = letter->frame.head;
  if (!letter->has_begun) {
    if (letter->tells_of != nullptr)
      letter->frame.head.code = letter->tells_of->code;
    if (!begin(peer, letter, reinterpret_cast<const char*>(&letter->frame),
               sizeof(Frame), kFrameTag, nullptr))
      return false;
    letter->has_begun = true;
    letter->has_all_begun = letter->frame.holds_all();
    return true;
  }
  if (letter->flying >= kSegmentsFlying) return false;
  const uint64_t bytes = segment_at(letter->begun, head.bytes);
  const char* data = nullptr;
  std::unique_ptr<char[]> held;
  if (letter->part != nullptr) {
    held = std::make_unique_for_overwrite<char[]>(bytes);
    data = held.get();
    if (int32_t code =
            letter->part->get(head.offset + letter->begun, held.get(), bytes)) {
      letter->code = code;
      std::memset(held.get(), 0, bytes);
    }
  } else {
    data = letter->data + letter->begun;
  }
  if (!begin(peer, letter, data, bytes, kSegmentTag, std::move(held)))
    return false;
  letter->begun += bytes;
  letter->has_all_begun = letter->begun == head.bytes;
  return true;
}

bool Courier::begin(int peer, const std::shared_ptr<Letter>& letter,
                    const char* data, uint64_t bytes, uint64_t tag,
                    std::unique_ptr<char[]> held) {
  auto one = std::make_unique<Sent>(*this);
  one->peer = peer;
  one->letter = letter;
  one->held = std::move(held);
  const int32_t code =
      submit(DW_OP_SEND, peer, const_cast<char*>(data), bytes, tag, *one);
  if (code == DW_AGAIN) starve();
  if (code != DW_OK) return false;
  one.release();
  ++letter->flying;
  ++out_[static_cast<size_t>(peer)].flying;
  return true;
}

// The thread will try again.
void Courier::starve() {
  base::MutexLock lock(landed_mutex_);
  starved_ = true;
  landed_.notify_one();
}

void Sent::handle() {
  courier.sent(*this);
  delete this;
}

void Courier::sent(Sent& one) {
  base::MutexLock lock(mutex_);
  --on_their_way_;
  --one.letter->flying;
  --out_[static_cast<size_t>(one.peer)].flying;
  if (one.code != DW_OK) {
    if (one.error.peer < 0) one.error.peer = one.peer;
    break_off(one.error);
    if (one.letter->pending != nullptr) one.letter->pending->note(why_);
  }
  settle(*one.letter);
  pump(one.peer);
}

void Courier::settle(Letter& letter) {
  if (!letter.has_all_begun || letter.flying > 0 || letter.pending == nullptr)
    return;
  --letter.pending->sends;
  settle(std::exchange(letter.pending, nullptr));
}

void Courier::settle(const std::shared_ptr<Pending>& pending) {
  if (!pending->over()) return;
  if (pending->work != nullptr)
    ended_.push_back(pending);
  else
    changed_.notify_all();
}

void Courier::drop_letters(const dw_error& why) {
  for (Outbound& out : out_)
    for (const std::shared_ptr<Letter>& letter :
         std::exchange(out.letters, {})) {
      if (letter->pending != nullptr) letter->pending->note(why);
      letter->has_all_begun = true;
      settle(*letter);
    }
}

}  // namespace distwrap::algo::windows
