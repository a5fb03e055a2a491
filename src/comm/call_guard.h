// Tells whether a thread is inside an object, at the cost of two plain stores a
// call (thread_marks.h).
//
// A call writes the object's address into a slot of its thread, then checks
// that the object is still open. A thread that closes the object first marks it
// closed, then waits until no slot names it.
//
// Threads: any. Calls on guarded objects do not nest within a thread. Guarded
// objects are aligned to four bytes, since the two lower bits of a slot say
// what the call is doing.
#ifndef DISTWRAP_SRC_COMM_CALL_GUARD_H_
#define DISTWRAP_SRC_COMM_CALL_GUARD_H_

#include "comm/thread_marks.h"
#include "distwrap/deadline.h"

#include <atomic>
#include <cstdint>

namespace distwrap::comm {

class CallGuard {
 public:
  // The state of a call, which decides who may come in beside it.
  enum class Doing : uintptr_t {
    kSomething = 0,  // needs the object for itself
    kWaitsForMessage = 1,
    kWaitsForCollective = 2,
    kBeside = 3,  // touches the object only under its locks
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
    // Added and not or-ed, so that the processor computes it as one address.
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

  // Whether this thread is inside an object.
  static bool is_in_call() {
    const ThreadMarks* const marks = ThreadMarks::mine_if_made();
    return marks != nullptr && marks->call.load(std::memory_order_relaxed) != 0;
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
