#include "comm/biased_lock.h"

#include <sched.h>
#include <time.h>

namespace distwrap::comm {
namespace {

// An owner that is about to wait or to leave does so within a few yields.
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

BiasedLock::Place BiasedLock::enter(CallGuard::Slot& slot, bool collective,
                                    Deadline deadline) {
  // Nobody needs to wait for this call: it does nothing yet.
  CallGuard::say(slot, object_, CallGuard::Doing::kBeside);
  return enter_as(&slot, collective, deadline);
}

BiasedLock::Place BiasedLock::enter_beside(bool collective, Deadline deadline) {
  return enter_as(nullptr, collective, deadline);
}

BiasedLock::Place BiasedLock::enter_as(CallGuard::Slot* slot, bool collective,
                                       Deadline deadline) {
  for (int round = 0;; ++round) {
    {
      base::MutexLock lock(mutex_);
      if (!is_in_the_way(collective)) {
        if (slot != nullptr && owner_ == nullptr && beside_ == 0 && !shut_) {
          // Done under the mutex, so that the next thread sees what this one is
          // doing.
          CallGuard::say(*slot, object_, CallGuard::Doing::kSomething);
          owner_ = slot;
          if (watching_ == 0)
            owner_mark_.store(slot, std::memory_order_seq_cst);
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

// Takes the lock away from its owner and checks what the owner is doing.
// Returns whether the owner prevents the caller from entering.
bool BiasedLock::is_in_the_way(bool collective) {
  take_mark();
  if (owner_ == nullptr) return false;
  const uintptr_t slot = owner_->load(std::memory_order_seq_cst);
  const CallGuard::Doing doing = CallGuard::doing_in(slot);
  // The owner has entered another call by `enter`: the one before has ended.
  if (CallGuard::object_in(slot) != object_ ||
      doing == CallGuard::Doing::kBeside) {
    owner_ = nullptr;
    return false;
  }
  if (doing == CallGuard::Doing::kSomething || !shares_) return true;
  return collective && doing == CallGuard::Doing::kWaitsForCollective;
}

void BiasedLock::take_mark() {
  if (owner_mark_.load(std::memory_order_relaxed) == nullptr) return;
  owner_mark_.store(nullptr, std::memory_order_seq_cst);
  ThreadMarks::barrier();
}

void BiasedLock::watch(bool on) {
  base::MutexLock lock(mutex_);
  watching_ += on ? 1 : -1;
  if (on) take_mark();
}

void BiasedLock::leave() {
  base::MutexLock lock(mutex_);
  --beside_;
}

void BiasedLock::shut() {
  base::MutexLock lock(mutex_);
  shut_ = true;
  owner_mark_.store(nullptr, std::memory_order_seq_cst);
}

}  // namespace distwrap::comm
