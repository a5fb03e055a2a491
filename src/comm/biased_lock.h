// A lock that its last owner takes at the price of a comparison, as long as no
// other thread comes.
//
// The lock belongs to the thread that called last, also between its calls.
// Another thread takes it away: it clears the mark by which the owner knows
// that the lock is his own, makes every running thread pass a memory barrier,
// and looks whether the owner is inside (call_guard.h). If not, the lock is
// handed over. If the owner is inside and waits, the other thread comes in
// *beside* the owner: it does only what never waits, under the submit mutex,
// and waits elsewhere. When all threads beside have left, the next to come is
// alone again.
//
// Threads: any.
#ifndef DISTWRAP_SRC_COMM_BIASED_LOCK_H_
#define DISTWRAP_SRC_COMM_BIASED_LOCK_H_

#include "base/mutex.h"
#include "comm/call_guard.h"

#include <atomic>

namespace distwrap::comm {

class BiasedLock {
 public:
  // `object`: the object whose calls are guarded. `shares`: other threads may
  // enter while the owner waits; otherwise they wait until the owner has left.
  BiasedLock(const void* object, bool shares)
      : object_(object), shares_(shares) {}
  BiasedLock(const BiasedLock&) = delete;
  BiasedLock& operator=(const BiasedLock&) = delete;

  // Whether the thread owns the lock. If so it is alone until its call ends or
  // says that it waits.
  bool is_of(const CallGuard::Slot& slot) const {
    return owner_mark_.load(std::memory_order_seq_cst) == &slot;
  }

  enum class Place { kAlone, kBeside, kNone };
  // For a call whose thread does not own the lock. A collective never enters
  // beside another call, since collectives have to reach the object in the
  // order of their numbers. kNone: the owner did not leave by the deadline.
  Place enter(CallGuard::Slot& slot, bool collective, Deadline deadline);
  // For a thread that enters several objects: it always enters beside the owner
  // and is in no call.
  Place enter_beside(bool collective, Deadline deadline);
  // Leaves after `enter` or `enter_beside` put this thread beside the owner.
  void leave();
  // Takes the ownership away for good: every later call has to use `enter`.
  void shut();
  // While on, no thread is known to own the lock: every call uses `enter`, one
  // after the other. After the return no call enters by ownership any more.
  void watch(bool on);

  // A thread beside the owner holds it while it submits, which one thread may
  // do at a time.
  base::Mutex& submit_mutex() ABSL_LOCK_RETURNED(submit_mutex_) {
    return submit_mutex_;
  }

 private:
  Place enter_as(CallGuard::Slot* slot, bool collective, Deadline deadline);
  void take_mark() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool is_in_the_way(bool collective) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const void* const object_;
  const bool shares_;
  // The owner as calls see it; null: none.
  std::atomic<const CallGuard::Slot*> owner_mark_{nullptr};
  base::Mutex submit_mutex_;

  base::Mutex mutex_;
  // The thread that was alone last and may still be inside.
  CallGuard::Slot* owner_ ABSL_GUARDED_BY(mutex_) = nullptr;
  int beside_ ABSL_GUARDED_BY(mutex_) = 0;
  bool shut_ ABSL_GUARDED_BY(mutex_) = false;
  int watching_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace distwrap::comm

#endif  // DISTWRAP_SRC_COMM_BIASED_LOCK_H_
