// Which ranks of a group run on processors that share no cache with this one.
//
// What a rank writes for others stays in its caches, and they take it from
// there; when it writes there again, it takes the lines back. Where a cache is
// shared nothing is faster. Where none is, each line takes longer than one of
// memory, and writing past the caches is up to 15 times as fast: 1 MiB from one
// rank to another takes 420 us on an AMD EPYC (Zen 4) whose ranks are on two
// core complexes, and 47 past the caches; where they are on one 33, and 61.
//
// Nobody but the time can tell: what a virtual machine says of its caches is
// not so, and its processors move from second to second. So now and then a word
// that another rank has written lately is loaded, and the clock read around it.
//
// Threads: one at a time.
#ifndef DISTWRAP_BACKENDS_SHM_DISTANCES_H_
#define DISTWRAP_BACKENDS_SHM_DISTANCES_H_

#include "distwrap/abi/plugin.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace shm_backend {

class Distances {
 public:
  // What is shorter goes by way of the caches from anywhere to anywhere.
  static constexpr size_t kLeast = 2 << 10;
  // A load of a line out of another processor's cache takes 20 to 70 ns where
  // the next level is shared, and 100 and more where not.
  static constexpr int64_t kFarNs = 85;

  using Pulses = std::vector<const std::atomic<uint64_t>*>;
  // By rank, of a group of two or more. `told`: whether most are far, for those
  // that read.
  void attach(const dw_host_api& host, int rank, Pulses pulses,
              std::atomic<uint32_t>* told = nullptr);

  // After this rank has written something for others, and they `Area::pulse`;
  // all of them, or one.
  void look() { look(turn_); }
  void look(int rank) {
    if (--left_ == 0) [[unlikely]]
      measure(rank);
  }
  bool is_far(int rank) const {
    return ranks_[static_cast<size_t>(rank)].is_far;
  }
  // Whether most of the others are.
  bool most_are_far() const { return most_are_far_; }

 private:
  // More than half of them say where a rank is: a line may have come here by
  // chance, and this rank may be held up.
  static constexpr int kSamples = 5, kMostLooks = 8;
  // Calls of `look`. Odd: messages may go to others in turn.
  static constexpr int kFirstRest = 9, kMostRest = 127;
  struct Rank {
    uint64_t seen = 0;  // of its pulse; 0: never
    int samples = 0, slow = 0;
    bool is_far = false;
  };
  void measure(int rank);
  void conclude(Rank& rank);
  void rest();
  int next(int rank) const;

  const dw_host_api* host_ = nullptr;
  int own_rank_ = 0, turn_ = 0;
  Pulses pulses_;
  std::atomic<uint32_t>* told_ = nullptr;
  int left_ = kFirstRest, rest_ = kFirstRest;
  int looks_ = 0;  // since the last rest
  std::vector<Rank> ranks_;
  bool most_are_far_ = false;
};

}  // namespace shm_backend

#endif  // DISTWRAP_BACKENDS_SHM_DISTANCES_H_
