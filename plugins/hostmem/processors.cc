#include "hostmem/processors.h"

#include <algorithm>
#include <bit>
#include <fstream>
#include <sched.h>

namespace dw_hostmem {
namespace {

// No limit: one more than a mask can have.
constexpr uint64_t kAny = Processors::kWords * 64 + 1;

uint64_t quota() {
  std::ifstream in("/sys/fs/cgroup/cpu.max");
  double share, period;  // the first is "max" without a limit
  if (!(in >> share >> period) || share <= 0 || period <= 0) return kAny;
  const double most = share / period;
  if (most >= static_cast<double>(kAny)) return kAny;
  return std::max<uint64_t>(1, static_cast<uint64_t>(most));
}

}  // namespace

Processors Processors::usable() {
  Processors own = {};
  own.at_once = quota();
  cpu_set_t mask;
  CPU_ZERO(&mask);
  if (sched_getaffinity(0, sizeof mask, &mask) != 0) {
    own.set[0] = 1;
    return own;
  }
  for (size_t i = 0; i < CPU_SETSIZE; ++i)
    if (CPU_ISSET(i, &mask)) own.set[i / 64 % kWords] |= uint64_t{1} << i % 64;
  return own;
}

void Processors::add(const Processors& other) {
  for (size_t i = 0; i < kWords; ++i) set[i] |= other.set[i];
  at_once = std::min(at_once, other.at_once);
}

int Processors::count() const {
  uint64_t n = 0;
  for (const uint64_t word : set)
    n += static_cast<uint64_t>(std::popcount(word));
  return static_cast<int>(
      std::clamp<uint64_t>(at_once, 1, std::max<uint64_t>(n, 1)));
}

}  // namespace dw_hostmem
