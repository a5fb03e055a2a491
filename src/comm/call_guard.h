// Knows whether a thread is inside an object, at the price of two plain stores
// per call: hazard pointers with an asymmetric barrier.
//
// A call marks the object in a slot of its thread, then looks whether the
// object is still open. Whoever closes the object first marks it closed, then
// makes every running thread pass a memory barrier (membarrier(2)), then waits
// until no slot names the object. So either the call sees "closed", or the
// closer sees the call; nothing is counted and no cache line is shared.
//
// Threads: any. Calls on guarded objects do not nest within a thread.
#ifndef DISTWRAP_SRC_COMM_CALL_GUARD_H_
#define DISTWRAP_SRC_COMM_CALL_GUARD_H_

#include "distwrap/deadline.h"

#include <atomic>

namespace distwrap::comm {

class CallGuard {
 public:
  explicit CallGuard(const void* object) : slot_(this_threads_slot()) {
    if (asymmetric_) {
      slot_.store(object, std::memory_order_relaxed);
      // The look at the object must not move before the store; the processor is
      // kept from it by the closer's membarrier.
      std::atomic_signal_fence(std::memory_order_seq_cst);
    } else {
      slot_.exchange(object, std::memory_order_seq_cst);
    }
  }
  ~CallGuard() { slot_.store(nullptr, std::memory_order_release); }
  CallGuard(const CallGuard&) = delete;
  CallGuard& operator=(const CallGuard&) = delete;

  // Called after `object` was marked closed: waits until no call is inside.
  // False when one still is at the deadline.
  static bool wait_until_left(const void* object, Deadline deadline);

 private:
  using Slot = std::atomic<const void*>;

  static Slot& this_threads_slot() {
    Slot* const slot = thread_slot_;
    return slot != nullptr ? *slot : make_slot();
  }
  static Slot& make_slot();

  static const bool asymmetric_;
  [[gnu::tls_model(
      "initial-exec")]] static inline thread_local Slot* thread_slot_ = nullptr;

  Slot& slot_;
};

}  // namespace distwrap::comm

#endif  // DISTWRAP_SRC_COMM_CALL_GUARD_H_
