#include "bench/core_speed.h"

#include "distwrap/deadline.h"

#include <algorithm>
#include <fstream>
#include <limits>

namespace distwrap::bench {
namespace {

// Computes as many sums in parallel as a core can issue at once, because the
// threads of a core share its execution units.
int64_t timed_sums_ns() {
  constexpr int kTimes = 2000;
  uint64_t a = 1, b = 2, c = 3, d = 4, e = 5, f = 6;
  const int64_t start = Deadline::now_ns();
  for (int i = 0; i < kTimes; ++i) {
    a += 1;
    b += 3;
    c += 5;
    d += 7;
    e += 9;
    f += 11;
    // Keeps the compiler from merging the additions.
    asm volatile("" : "+r"(a), "+r"(b), "+r"(c), "+r"(d), "+r"(e), "+r"(f));
  }
  return Deadline::now_ns() - start;
}

}  // namespace

bool CoreSpeed::tells_of_others() {
  std::ifstream in("/sys/devices/system/cpu/smt/active");
  return in.get() != '1';
}

double CoreSpeed::slowdown() {
  // An interrupt may fall into one of the attempts.
  constexpr int kTries = 3;
  int64_t now_ns = std::numeric_limits<int64_t>::max();
  for (int i = 0; i < kTries; ++i) now_ns = std::min(now_ns, timed_sums_ns());
  now_ns = std::max<int64_t>(now_ns, 1);
  least_ns_ = least_ns_ == 0 ? now_ns : std::min(least_ns_, now_ns);
  return static_cast<double>(now_ns) / static_cast<double>(least_ns_);
}

}  // namespace distwrap::bench
