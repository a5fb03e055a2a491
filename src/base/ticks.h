// The processor's own clock, the cheapest time stamp.
//
// Two moments far apart, taken with this clock and the system's clock, turn
// ticks into time; nothing is calibrated at start.
// Threads: any; safe in a signal handler.
#ifndef DISTWRAP_SRC_BASE_TICKS_H_
#define DISTWRAP_SRC_BASE_TICKS_H_

#include <cstdint>
#include <time.h>
#if defined(__x86_64__)
#include <x86intrin.h>
#endif

namespace distwrap::base {

// Counts up at one rate on all cores, from an arbitrary start.
inline uint64_t ticks() {
#if defined(__x86_64__)
  return __rdtsc();
#elif defined(__aarch64__)
  uint64_t value;
  asm volatile("mrs %0, cntvct_el0" : "=r"(value));
  return value;
#else
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000u +
         static_cast<uint64_t>(now.tv_nsec);
#endif
}

// The values of both clocks at one moment.
struct Moment {
  uint64_t ticks = 0;
  int64_t monotonic_ns = 0;
  int64_t unix_ns = 0;

  static Moment now();
};

// Converts ticks into times, from two moments of this process.
class TickScale {
 public:
  TickScale(const Moment& early, const Moment& late);
  // Nanoseconds since 1970.
  int64_t unix_ns(uint64_t ticks) const;

 private:
  const Moment late_;
  double ns_per_tick_;
};

}  // namespace distwrap::base

#endif  // DISTWRAP_SRC_BASE_TICKS_H_
