// Chooses between two algorithms for calls of one operation and size, where
// only a measurement can tell: each gains or loses with the machine and with
// where the callers' data happen to lie.
//
// All ranks have to choose alike. So they try both at the same calls, tell each
// other afterwards how long each try took, and compute the same result:
//
//   Choice choice(calls until a way is at its own pace);
//   if (choice.is_due()) choice.choose(times of all ranks, ...);
//   const int way = choice.way();
//   ... the call ...
//   choice.is_trying() ? choice.took(ns) : choice.passed();
//
// After that no call is measured for a while; the pauses grow to some thousand
// calls.
//
// Threads: the one that runs collectives.
#ifndef DISTWRAP_BACKENDS_SHM_CHOICE_H_
#define DISTWRAP_BACKENDS_SHM_CHOICE_H_

#include <algorithm>
#include <cstdint>

namespace shm_backend {

class Choice {
 public:
  static constexpr int kTries = 5;
  // How long each try of the first and of the second algorithm took: one call,
  // or several short ones, so that a delay of one rank falls into one try.
  struct Times {
    uint32_t ns[2][kTries];
  };

  // The first calls with an algorithm find the caches as the other algorithm
  // left them, and ranks that have just waited for each other. So `settling`
  // calls do not count.
  explicit Choice(int settling = kLeastSettling)
      : settling_(settling), calls_(settling / kLeastSettling) {}
  static constexpr int kLeastSettling = 8;

  bool is_trying() const { return tried_ < both(); }
  bool is_due() const { return tried_ == both(); }
  // The algorithm of the next call, 0 or 1. Algorithm 1 is tried first.
  int way() const { return is_trying() ? 1 - tried_ / block() : chosen_; }

  // Adds the time of a call that was a try.
  void took(int64_t ns) {
    const int call = tried_ % block() - settling_;
    if (call >= 0) {
      uint32_t& sum = times_.ns[way()][call / calls_];
      if (call % calls_ == 0) sum = 0;
      sum += static_cast<uint32_t>(
          std::clamp<int64_t>(ns, 0, int64_t{UINT32_MAX} / calls_));
    }
    ++tried_;
  }
  void passed() {
    if (--left_ == 0) tried_ = 0;
  }

  // This rank's times.
  const Times& times() const { return times_; }
  // Chooses by the times of `n` ranks. `together`: all ranks leave the
  // operation at once, so the last to enter knows its time and the others
  // measured also their wait; then the smallest time counts. Otherwise no rank
  // is done before the last, and the largest counts.
  void choose(const Times* all, int n, bool together) {
    uint32_t median[2];
    for (int way = 0; way < 2; ++way) {
      uint32_t took[kTries];
      for (int i = 0; i < kTries; ++i) {
        took[i] = all[0].ns[way][i];
        for (int r = 1; r < n; ++r)
          took[i] = together ? std::min(took[i], all[r].ns[way][i])
                             : std::max(took[i], all[r].ns[way][i]);
      }
      std::nth_element(took, took + kTries / 2, took + kTries);
      median[way] = took[kTries / 2];
    }
    const int faster = median[1] < median[0] ? 1 : 0;
    // A small difference is noise. After a change the next tries come soon.
    if (!is_known_ ||
        (faster != chosen_ && median[faster] < median[1 - faster] / 8 * 7)) {
      chosen_ = faster;
      rest_ = kFirstRest;
    }
    is_known_ = true;
    tried_ = both() + 1;
    left_ = rest_;
    rest_ = std::min(8 * rest_, kRestOfTries * both());
  }

 private:
  // The first tries use memory that nobody has used yet, so the next come soon.
  // Later tries have to be few among all calls.
  static constexpr int kFirstRest = 64, kRestOfTries = 128;
  int block() const { return settling_ + kTries * calls_; }
  int both() const { return 2 * block(); }

  const int settling_, calls_;  // calls that do not count, calls of one try
  int tried_ = 0;  // at both() all tries were made; above: none is due
  int left_ = 0;   // calls until the next try
  int rest_ = kFirstRest;
  int chosen_ = 0;
  bool is_known_ = false;
  Times times_ = {};
};

}  // namespace shm_backend

#endif  // DISTWRAP_BACKENDS_SHM_CHOICE_H_
