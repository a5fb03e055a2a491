// Who may call on an object: a thread that comes alone has it for itself, at
// the price of a comparison; several share it by a lock.
//
// The seat belongs to the thread that called last, also between its calls.
// Another one takes it away: it clears the mark by which the owner knows that
// the seat is his, makes every running thread pass a memory barrier, and looks
// whether the owner is inside (call_guard.h). If not, the seat is handed over.
// If the owner is inside and waits, the other comes in *beside* him: it does
// only what never waits, under the lock of turns, and waits elsewhere. When all
// those have left, the next to come has the seat for itself again.
//
// Threads: any.
#ifndef DISTWRAP_SRC_COMM_SEAT_H_
#define DISTWRAP_SRC_COMM_SEAT_H_

#include "base/mutex.h"
#include "comm/call_guard.h"

#include <atomic>

namespace distwrap::comm {

class Seat {
 public:
  // `object` as calls on it are guarded. `shares`: others may come in while the
  // owner waits; else they wait until he has left.
  Seat(const void* object, bool shares) : object_(object), shares_(shares) {}
  Seat(const Seat&) = delete;
  Seat& operator=(const Seat&) = delete;

  // Whether the thread has the seat. If so it is alone until its call ends or
  // says that it waits.
  bool is_of(const CallGuard::Slot& slot) const {
    return owner_mark_.load(std::memory_order_seq_cst) == &slot;
  }

  enum class Place { kAlone, kBeside, kNone };
  // For a call whose thread does not have the seat. Collectives never come in
  // beside one: the order in which they reach the object is that of their
  // numbers. kNone: the owner was in the way up to the deadline.
  Place enter(CallGuard::Slot& slot, bool collective, Deadline deadline);
  // For a thread that comes in to several objects: always beside, in no call.
  Place enter_beside(bool collective, Deadline deadline);
  // Of who came in beside.
  void leave();
  // From now on nobody has the seat: every call comes by `enter`.
  void shut();
  // While on, nobody is known to have it: likewise, one after the other. When
  // this returns, no call comes in by the seat any more.
  void watch(bool on);

  // Held by who came in beside while it does what only one may do at a time.
  base::Mutex& turns() ABSL_LOCK_RETURNED(turns_) { return turns_; }

 private:
  Place enter_as(CallGuard::Slot* slot, bool collective, Deadline deadline);
  void take_mark() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool is_in_the_way(bool collective) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const void* const object_;
  const bool shares_;
  // Whose the seat is; null: nobody's, for all that a call knows.
  std::atomic<const CallGuard::Slot*> owner_mark_{nullptr};
  base::Mutex turns_;

  base::Mutex mutex_;
  // Who was alone last and may still be inside.
  CallGuard::Slot* owner_ ABSL_GUARDED_BY(mutex_) = nullptr;
  int beside_ ABSL_GUARDED_BY(mutex_) = 0;
  bool shut_ ABSL_GUARDED_BY(mutex_) = false;
  bool watched_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace distwrap::comm

#endif  // DISTWRAP_SRC_COMM_SEAT_H_
