// Marks of the objects that each thread uses, read before one is ended: hazard
// pointers with an asymmetric barrier.
//
// A user writes a mark, then checks that the object is still open. A thread
// that ends the object first closes it, then makes every running thread pass a
// memory barrier (membarrier(2)), then reads the marks of all threads. So
// either the user sees that the object is closed, or the ending thread sees the
// mark. Nothing is counted and no cache line is shared.
//
// Threads: a mark is written by its own thread and read by any. Ownership:
// marks are never freed; those of ended threads are reused.
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
  Mark handle{0};  // the C program's handle in use (capi/handles.h)
  // The object of `handle` that this thread has to release, because another
  // thread ended it meanwhile. Used in `visit` only.
  void* owed = nullptr;

  static ThreadMarks& mine() {
    ThreadMarks* const marks = mine_;
    return marks != nullptr ? *marks : make();
  }

  // Null as long as this thread has used none.
  static ThreadMarks* mine_if_made() { return mine_; }

  // Whether the kernel has the barrier. Otherwise a mark has to be written by
  // an atomic exchange.
  static bool asymmetric() { return asymmetric_; }
  // Writes a mark before the object is checked. The compiler must not move the
  // check; the barrier of the ending thread stops the processor from moving it.
  static void put(Mark& mark, uintptr_t value) {
    // Release order: another thread that sees no mark also sees what this
    // thread did before.
    mark.store(value, std::memory_order_release);
    std::atomic_signal_fence(std::memory_order_seq_cst);
  }
  // The barrier between closing an object and reading the marks.
  static void barrier();
  // Visits all threads' marks; one visitor at a time.
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
