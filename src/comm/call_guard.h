// Knows whether a thread is inside an object, at the price of two plain stores
// per call (thread_marks.h).
//
// A call marks the object in a slot of its thread, then looks whether the
// object is still open. Whoever closes the object first marks it closed, then
// waits until no slot names it.
//
// Threads: any. Calls on guarded objects do not nest within a thread. Objects
// lie at multiples of four: what a call is doing stands in the lower bits.
#ifndef DISTWRAP_SRC_COMM_CALL_GUARD_H_
#define DISTWRAP_SRC_COMM_CALL_GUARD_H_

#include "comm/thread_marks.h"
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
  using Slot = ThreadMarks::Mark;

  explicit CallGuard(const void* object) : slot_(ThreadMarks::mine().call) {
    const auto mark = reinterpret_cast<uintptr_t>(object);
    if (ThreadMarks::asymmetric())
      ThreadMarks::put(slot_, mark);
    else
      slot_.exchange(mark, std::memory_order_seq_cst);
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

  // Called after `object` was marked closed: waits until no call is inside.
  // False when one still is at the deadline.
  static bool wait_until_left(const void* object, Deadline deadline);

 private:
  static constexpr uintptr_t kDoing = 3;

  Slot& slot_;
};

}  // namespace distwrap::comm

#endif  // DISTWRAP_SRC_COMM_CALL_GUARD_H_
