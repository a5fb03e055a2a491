// Whether who waits should yield the processor or sleep.
//
// A yield is back at once where nobody else wants the processor. Where others
// do it is gone for a slice, of milliseconds, and so long nothing moves: two
// ranks that wait for each other, each beside a busy process, need several a
// call. There it is better to sleep, since who is woken goes before them.
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
  // A yield that took longer has cost a slice.
  static constexpr int64_t kSliceNs = 500'000;
  // How often to sleep before it is tried again: at first, and at most. Not
  // more: it may have been a peer that computes, not a stranger.
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
