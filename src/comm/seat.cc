#include "comm/seat.h"

#include <sched.h>
#include <time.h>

namespace distwrap::comm {
namespace {

// An owner that is about to wait or to leave does so at once.
constexpr int kYields = 20;

void pause(int round) {
  if (round < kYields) {
    sched_yield();
    return;
  }
  const timespec span{0, 100'000};
  nanosleep(&span, nullptr);
}

}  // namespace

Seat::Place Seat::enter(CallGuard::Slot& slot, bool collective,
                        Deadline deadline) {
  // Nobody shall wait for this call: it does nothing yet.
  CallGuard::say(slot, object_, CallGuard::Doing::kBeside);
  return enter_as(&slot, collective, deadline);
}

Seat::Place Seat::enter_beside(bool collective, Deadline deadline) {
  return enter_as(nullptr, collective, deadline);
}

Seat::Place Seat::enter_as(CallGuard::Slot* slot, bool collective,
                           Deadline deadline) {
  for (int round = 0;; ++round) {
    {
      base::MutexLock lock(mutex_);
      if (!is_in_the_way(collective)) {
        if (slot != nullptr && owner_ == nullptr && beside_ == 0 && !shut_) {
          // Under the lock: who comes next sees what this thread does.
          CallGuard::say(*slot, object_, CallGuard::Doing::kSomething);
          owner_ = slot;
          if (!watched_) owner_mark_.store(slot, std::memory_order_seq_cst);
          return Place::kAlone;
        }
        ++beside_;
        return Place::kBeside;
      }
    }
    if (deadline.passed()) return Place::kNone;
    pause(round);
  }
}

// Takes the seat away from its owner, and looks what he is doing.
bool Seat::is_in_the_way(bool collective) {
  take_mark();
  if (owner_ == nullptr) return false;
  const uintptr_t slot = owner_->load(std::memory_order_seq_cst);
  const CallGuard::Doing doing = CallGuard::doing_in(slot);
  // In a call of its own that came by `enter`, the one before has ended.
  if (CallGuard::object_in(slot) != object_ ||
      doing == CallGuard::Doing::kBeside) {
    owner_ = nullptr;
    return false;
  }
  if (doing == CallGuard::Doing::kSomething || !shares_) return true;
  return collective && doing == CallGuard::Doing::kWaitsForCollective;
}

void Seat::take_mark() {
  if (owner_mark_.load(std::memory_order_relaxed) == nullptr) return;
  owner_mark_.store(nullptr, std::memory_order_seq_cst);
  ThreadMarks::barrier();
}

void Seat::watch(bool on) {
  base::MutexLock lock(mutex_);
  watched_ = on;
  if (on) take_mark();
}

void Seat::leave() {
  base::MutexLock lock(mutex_);
  --beside_;
}

void Seat::shut() {
  base::MutexLock lock(mutex_);
  shut_ = true;
  owner_mark_.store(nullptr, std::memory_order_seq_cst);
}

}  // namespace distwrap::comm
