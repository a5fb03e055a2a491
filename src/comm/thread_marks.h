// What each thread says it is using, for whoever wants to end it: hazard
// pointers with an asymmetric barrier.
//
// A user writes a mark, then looks whether the thing still stands. Whoever ends
// it first makes it fall, then makes every running thread pass a memory barrier
// (membarrier(2)), then looks at the marks of all. So either the user sees that
// it fell, or the other sees the mark; nothing is counted, no line is shared.
//
// Threads: marks are written by their own and read by any. Ownership: for ever;
// those of ended threads are used again.
#ifndef DISTWRAP_SRC_COMM_THREAD_MARKS_H_
#define DISTWRAP_SRC_COMM_THREAD_MARKS_H_

#include <absl/functional/function_ref.h>

#include <atomic>
#include <cstdint>

namespace distwrap::comm {

class alignas(64) ThreadMarks {
 public:
  using Mark = std::atomic<uintptr_t>;

  Mark call{0};    // the object that the thread is in (call_guard.h)
  Mark handle{0};  // what it uses of a C program's (capi/handles.h)
  // The thing of `handle` that this thread has to let go of, as somebody ended
  // it meanwhile. Written and read in `visit` only.
  void* owed = nullptr;

  static ThreadMarks& mine() {
    ThreadMarks* const marks = mine_;
    return marks != nullptr ? *marks : make();
  }

  // Whether the kernel has the barrier. Else a mark has to be exchanged.
  static bool asymmetric() { return asymmetric_; }
  // A mark, before the look at what it names. The compiler must not move the
  // look; the processor is kept from it by the other's barrier.
  static void put(Mark& mark, uintptr_t value) {
    // Releases what the thread did before, should nobody see the mark gone in
    // between.
    mark.store(value, std::memory_order_release);
    std::atomic_signal_fence(std::memory_order_seq_cst);
  }
  // Between the fall of something and a look at the marks.
  static void barrier();
  // All threads' marks, by one visitor at a time.
  static void visit(absl::FunctionRef<void(ThreadMarks&)> look);

 private:
  friend struct MarksReturn;

  static ThreadMarks& make();

  static const bool asymmetric_;
  [[gnu::tls_model(
      "initial-exec")]] static inline thread_local ThreadMarks* mine_ = nullptr;
};

}  // namespace distwrap::comm

#endif  // DISTWRAP_SRC_COMM_THREAD_MARKS_H_
