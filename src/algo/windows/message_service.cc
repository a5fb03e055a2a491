#include "algo/windows/message_service.h"

#include "algo/below/dtypes.h"
#include "algo/decorator.h"
#include "base/guard_door.h"
#include "sdk/thread.h"

#include <algorithm>
#include <sched.h>
#include <utility>

namespace distwrap::algo::windows {
namespace {

// For a backend that has to be polled: the number of polls before a sleep, and
// the longest sleep.
constexpr int kAsks = 200;
constexpr int64_t kFirstNap = 50'000;
constexpr int64_t kLongestNap = 10'000'000;
// After this time, operations for which there was no room are tried again.
constexpr int64_t kRetry = 1'000'000;

Deadline in_ns(int64_t nap) {
  return Deadline::at_ns(Deadline::now_ns() + nap);
}

}  // namespace

MessageService::MessageService(BackendBelow& backend, dw_comm* below,
                               int carrier, int rank, int size, uint64_t uid)
    : backend_(backend),
      below_(below),
      rank_(rank),
      size_(size),
      uid_(uid),
      carrier_(carrier),
      out_(static_cast<size_t>(size)) {
  if (below_ == nullptr) return;
  for (int peer = 0; peer < size_; ++peer)
    in_.push_back(peer == rank_ ? nullptr
                                : std::make_unique<Inbound>(*this, peer));
}

int32_t MessageService::start(dw_error* error) {
  if (below_ == nullptr) return DW_OK;
  return dw_sdk::start_thread(
      &thread_, "dw-windows", [this] { run(); }, error);
}

MessageService::~MessageService() {
  if (thread_.joinable()) thread_.join();
}

void MessageService::add(std::shared_ptr<Part> part) {
  base::MutexLock lock(mutex_);
  if (broken_) part->end_waits(why_);
  const uint64_t uid = part->uid();
  parts_[uid] = std::move(part);
}

void MessageService::remove(uint64_t window) {
  base::MutexLock lock(mutex_);
  parts_.erase(window);
}

int32_t MessageService::check(dw_error* error) {
  base::MutexLock lock(mutex_);
  if (!broken_) return DW_OK;
  if (error != nullptr) *error = why_;
  return why_.code;
}

void MessageService::abort() {
  dw_error why;
  algo::fail(&why, DW_ABORTED, DW_REASON_ABORTED, "the group was aborted");
  {
    base::MutexLock lock(mutex_);
    break_off(why);
  }
  tell();
}

void MessageService::break_off(const dw_error& why) {
  if (broken_) return;
  broken_ = true;
  why_ = why;
  for (auto& [id, request] : requests_) {
    request.pending->note(why);
    --request.pending->replies;
    settle(request.pending);
  }
  requests_.clear();
  drop_letters(why);
  for (const auto& [uid, part] : parts_) part->end_waits(why);
  changed_.notify_all();
  if (below_ != nullptr) backend_.inner().comm_abort(below_, &why);
}

void MessageService::tell() {
  std::vector<std::shared_ptr<Pending>> all;
  {
    base::MutexLock lock(mutex_);
    all.swap(ended_);
  }
  for (const auto& one : all)
    backend_.host().complete(one->work, one->code,
                             one->code == DW_OK ? nullptr : &one->error);
}

bool MessageService::stop(Deadline deadline) {
  abort();
  if (below_ == nullptr) return true;
  {
    base::MutexLock lock(landed_mutex_);
    stopping_ = true;
    landed_.notify_one();
    while (!has_left_)
      if (!left_.wait_until(landed_mutex_, deadline) && !has_left_)
        return false;
  }
  thread_.join();
  backend_.inner().comm_destroy(below_, deadline.is_never() ? 0 : deadline.ns(),
                                nullptr);
  return true;
}

int32_t MessageService::submit(uint16_t kind, int peer, void* data,
                               uint64_t bytes, uint64_t tag, Landed& cell) {
  dw_op op = {};
  op.struct_size = sizeof op;
  op.kind = kind;
  op.peer = peer;
  op.tag = tag;
  dw_buf& buffer = kind == DW_OP_SEND ? op.in : op.out;
  const uint64_t element = dtype_bytes(carrier_);
  buffer.data = data;
  buffer.count = static_cast<int64_t>(bytes / element);
  buffer.dtype = kDTypeOf[carrier_];
  op.stream.device_type = DW_DEVICE_CPU;
  dw_error error = {};
  error.peer = -1;
  const int32_t code = backend_.inner().submit(below_, &op, cell.abi(), &error);
  if (code == DW_AGAIN) return code;
  if (code == DW_OK || code == DW_DONE) {
    ++on_their_way_;
    if (code == DW_DONE) cell.end(DW_OK, nullptr);
    return DW_OK;
  }
  if (error.code == DW_OK)
    algo::fail(&error, code, DW_REASON_NONE, "a message could not be sent");
  if (error.peer < 0) error.peer = peer;
  break_off(error);
  return code;
}

// ---- the thread ----

void Landed::end(int32_t ended, const dw_error* why) {
  code = ended;
  if (why != nullptr)
    error = *why;
  else if (ended != DW_OK)
    algo::fail(&error, ended, DW_REASON_NONE,
               "the backend gave no further reason");
  service.land(*this);
}

void MessageService::land(Landed& one) {
  base::MutexLock lock(landed_mutex_);
  one.next = nullptr;
  (first_ == nullptr ? first_ : last_->next) = &one;
  last_ = &one;
  landed_.notify_one();
}

// Takes all completed messages; NULL when it is time to try again, or to end.
Landed* MessageService::take_landed(bool idle) {
  const bool asks = backend_.inner().progress != nullptr;
  int64_t nap = kFirstNap;
  for (int turns = 0;; ++turns) {
    {
      base::MutexLock lock(landed_mutex_);
      while (first_ == nullptr && !(stopping_ && idle)) {
        const bool again = starved_ || !hungry_.empty();
        if (asks && turns < kAsks) break;
        if (!asks && !again) {
          landed_.wait(landed_mutex_);
          continue;
        }
        landed_.wait_until(landed_mutex_, in_ns(asks ? nap : kRetry));
        nap = std::min(2 * nap, kLongestNap);
        break;
      }
      if (first_ != nullptr) {
        last_ = nullptr;
        return std::exchange(first_, nullptr);
      }
      has_left_ = stopping_ && idle;
      if (has_left_ || (!asks && (starved_ || !hungry_.empty())))
        return nullptr;
    }
    if (backend_.progress() > 0) {
      turns = 0;
      nap = kFirstNap;
    } else if (turns < kAsks) {
      sched_yield();
    }
    base::MutexLock lock(landed_mutex_);
    if (first_ == nullptr && (starved_ || !hungry_.empty())) return nullptr;
  }
}

template <class Step>
void MessageService::or_break(const Step& step) {
  dw_error why = {};
  if (dw_sdk::guarded("windows", &why, [&] {
        step();
        return DW_OK;
      }) == DW_OK)
    return;
  base::MutexLock lock(mutex_);
  break_off(why);
}

void MessageService::run() {
  const base::OwnWork own_work;
  or_break([this] {
    for (const auto& from : in_)
      for (size_t i = 0; from != nullptr && i < Inbound::kFrames; ++i)
        receive(from->frames[i], &from->spaces[i], sizeof(Frame), kFrameTag);
  });
  for (bool has_left = false; !has_left;) {
    tell();
    bool idle;
    {
      base::MutexLock lock(mutex_);
      idle = on_their_way_ == 0;
    }
    for (Landed* one = take_landed(idle); one != nullptr;) {
      Landed* const next = one->next;
      or_break([one] { one->handle(); });
      one = next;
    }
    or_break([this] { post_receives(); });
    bool starved;
    {
      base::MutexLock lock(landed_mutex_);
      starved = std::exchange(starved_, false);
      has_left = has_left_;
    }
    for (int peer = 0; starved && peer < size_; ++peer)
      or_break([this, peer] {
        base::MutexLock lock(mutex_);
        pump(peer);
      });
  }
  tell();
  base::MutexLock lock(landed_mutex_);
  left_.notify_all();
}

}  // namespace distwrap::algo::windows
