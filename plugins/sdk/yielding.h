// Decides whether a waiting thread yields the processor or sleeps.
//
// A yield returns at once when no other thread wants the processor. Otherwise
// the thread loses the processor for a time slice of milliseconds. Two ranks
// that wait for each other, each beside a busy process, would need several
// slices for one call. Sleeping is better there, because the scheduler prefers
// a thread that was woken.
//
//   if (yielding.pays()) {
//     sched_yield();
//     yielding.took(now() - before);
//   } else {
//     sleep until there is news;
//   }
#ifndef DISTWRAP_PLUGINS_SDK_YIELDING_H_
#define DISTWRAP_PLUGINS_SDK_YIELDING_H_

#include <atomic>
#include <cstdint>

namespace dw_sdk {

// Threads: any.
class Yielding {
 public:
  // A yield that took longer has cost a time slice.
  static constexpr int64_t kSliceNs = 500'000;
  // The number of sleeps before the next yield, at first and at most. The limit
  // keeps yields alive, because the busy thread may have been a peer that
  // computes for a moment.
  static constexpr uint32_t kFewest = 16, kMost = 256;

  bool pays() {
    const uint32_t left = skip_.load(std::memory_order_relaxed);
    if (left == 0) [[likely]]
      return true;
    skip_.store(left - 1, std::memory_order_relaxed);
    return false;
  }
  void took(int64_t ns) {
    if (ns < kSliceNs) [[likely]] {
      next_.store(kFewest, std::memory_order_relaxed);
      return;
    }
    const uint32_t next = next_.load(std::memory_order_relaxed);
    skip_.store(next, std::memory_order_relaxed);
    next_.store(next < kMost ? 2 * next : next, std::memory_order_relaxed);
  }

 private:
  std::atomic<uint32_t> skip_ = 0, next_ = kFewest;
};

}  // namespace dw_sdk

#endif  // DISTWRAP_PLUGINS_SDK_YIELDING_H_
