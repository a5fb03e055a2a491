// Finds the ranks of a group that run on processors without a cache in common
// with this one ("far" ranks).
//
// Data that a rank writes for others stay in its caches until they are read,
// and the rank takes the lines back when it writes there again. Nothing is
// faster between processors that share a cache. Between others each line takes
// longer than a line of memory, and non-temporal stores are up to 15 times as
// fast: 1 MiB from one rank to another takes 420 us on an AMD EPYC (Zen 4)
// whose ranks are on two core complexes, and 47 us with non-temporal stores; on
// one complex 33 us, and 61 us.
//
// Only a measurement can tell: what a virtual machine says of its caches is not
// true, and its processors move from second to second. So now and then a rank
// times a load of a word that another rank wrote lately.
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
  // Fewer bytes always use ordinary stores.
  static constexpr size_t kLeast = 2 << 10;
  // A load of a line out of another processor's cache takes 20 to 70 ns where
  // the next level is shared, and 100 and more where not.
  static constexpr int64_t kFarNs = 85;

  using Pulses = std::vector<const std::atomic<uint64_t>*>;
  // `pulses`: by rank, in a group of two or more. `told`: where this rank
  // publishes whether most others are far, for the ranks that read its staging.
  void attach(const dw_host_api& host, int rank, Pulses pulses,
              std::atomic<uint32_t>* told = nullptr);

  // Called after this rank has written something for other ranks, and they
  // `Area::pulse`: for all of them, or for one.
  void look() { look(turn_); }
  void look(int rank) {
    if (--left_ == 0) [[unlikely]]
      measure(rank);
  }
  bool is_far(int rank) const {
    return ranks_[static_cast<size_t>(rank)].is_far;
  }
  // Whether most of the other ranks are far.
  bool most_are_far() const { return most_are_far_; }

 private:
  // The majority of the samples decides: a line may be in this cache by chance,
  // and this rank may be delayed.
  static constexpr int kSamples = 5, kMostLooks = 8;
  // Calls of `look` between measurements. Odd numbers, since messages may go to
  // two ranks in turn.
  static constexpr int kFirstRest = 9, kMostRest = 127;
  struct Rank {
    uint64_t seen = 0;  // last value of its pulse; 0: never read
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
