// Which of two ways was faster lately. One of them gains or loses with where
// the caller's data happen to lie, which nothing but time tells: so the other
// one has its turn every now and then.
//
// Threads: of the one that runs collectives.
#ifndef DISTWRAP_BACKENDS_SHM_TRIAL_H_
#define DISTWRAP_BACKENDS_SHM_TRIAL_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace shm_backend {

class Trial {
 public:
  // 0 or 1. The first few times each in turn, then one in `kTurn` is not the
  // faster one.
  int next() {
    const uint32_t call = calls_++;
    if (call < kFirst) return static_cast<int>(call % 2);
    return call % kTurn == 0 ? 1 - faster() : faster();
  }
  void took(int way, int64_t ns) {
    int64_t& known = ns_[way];
    // What holds a call up can be anything; what makes it fast is the way.
    known = known == 0 || ns < known
                ? ns
                : known + (std::min(ns, 2 * known) - known) / 8;
  }
  int faster() const { return ns_[1] < ns_[0] ? 1 : 0; }

 private:
  static constexpr uint32_t kFirst = 8, kTurn = 64;
  uint32_t calls_ = 0;
  int64_t ns_[2] = {0, 0};
};

}  // namespace shm_backend

#endif  // DISTWRAP_BACKENDS_SHM_TRIAL_H_
