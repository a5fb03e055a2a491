// Knows whether a thread is inside an object, at the price of two plain stores
// per call: hazard pointers with an asymmetric barrier.
//
// A call marks the object in a slot of its thread, then looks whether the
// object is still open. Whoever closes the object first marks it closed, then
// makes every running thread pass a memory barrier (membarrier(2)), then waits
// until no slot names the object. So either the call sees "closed", or the
// closer sees the call; nothing is counted and no cache line is shared.
//
// Threads: any. Calls on guarded objects do not nest within a thread. Objects
// lie at multiples of four: what a call is doing stands in the lower bits.
#ifndef DISTWRAP_SRC_COMM_CALL_GUARD_H_
#define DISTWRAP_SRC_COMM_CALL_GUARD_H_

#include "distwrap/deadline.h"

#include <atomic>
#include <cstdint>

namespace distwrap::comm {

class CallGuard {
 public:
  // What a call is doing, for who may come in beside it (seat.h).
  enum class Doing : uintptr_t {
    kSomething = 0,  // what needs the object for itself
    kWaitsForMessage = 1,
    kWaitsForCollective = 2,
    kBeside = 3,  // nothing but by the locks of the object
  };
  using Slot = std::atomic<uintptr_t>;

  explicit CallGuard(const void* object) : slot_(this_threads_slot()) {
    const auto mark = reinterpret_cast<uintptr_t>(object);
    if (asymmetric_) {
      // Releases what the thread did in its last object, should nobody see the
      // slot empty in between.
      slot_.store(mark, std::memory_order_release);
      // The look at the object must not move before the store; the processor is
      // kept from it by the closer's membarrier.
      std::atomic_signal_fence(std::memory_order_seq_cst);
    } else {
      slot_.exchange(mark, std::memory_order_seq_cst);
    }
  }
  ~CallGuard() { slot_.store(0, std::memory_order_release); }
  CallGuard(const CallGuard&) = delete;
  CallGuard& operator=(const CallGuard&) = delete;

  Slot& slot() const { return slot_; }

  // Called by the slot's thread, inside `object`.
  static void say(Slot& slot, const void* object, Doing what) {
    // Added: an address that the processor computes in one go.
    slot.store(
        reinterpret_cast<uintptr_t>(object) + static_cast<uintptr_t>(what),
        std::memory_order_release);
  }
  static const void* object_in(uintptr_t slot) {
    return reinterpret_cast<const void*>(slot & ~kDoing);
  }
  static Doing doing_in(uintptr_t slot) {
    return static_cast<Doing>(slot & kDoing);
  }

  static Slot& this_threads_slot() {
    Slot* const slot = thread_slot_;
    return slot != nullptr ? *slot : make_slot();
  }

  // Between closing an object and a look at the slots.
  static void barrier();
  // Called after `object` was marked closed: waits until no call is inside.
  // False when one still is at the deadline.
  static bool wait_until_left(const void* object, Deadline deadline);

 private:
  friend struct SlotReturn;
  static constexpr uintptr_t kDoing = 3;

  static Slot& make_slot();

  static const bool asymmetric_;
  [[gnu::tls_model(
      "initial-exec")]] static inline thread_local Slot* thread_slot_ = nullptr;

  Slot& slot_;
};

}  // namespace distwrap::comm

#endif  // DISTWRAP_SRC_COMM_CALL_GUARD_H_
