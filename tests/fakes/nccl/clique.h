// The ranks of one communicator of the fake NCCL, and where their kernels meet.
#ifndef DISTWRAP_TESTS_FAKES_NCCL_CLIQUE_H_
#define DISTWRAP_TESTS_FAKES_NCCL_CLIQUE_H_

#include "fakes/nccl/arithmetic.h"

#include <array>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace fakes::nccl {

enum class Kind : uint8_t {
  kAllReduce,
  kReduce,
  kBroadcast,
  kAllGather,
  kReduceScatter,
  kAllToAll,
  kGather,
  kScatter,
  kMessage,  // a send or a receive
};

// One call of a rank.
struct Part {
  Kind kind = Kind::kAllReduce;
  const void* in = nullptr;
  void* out = nullptr;
  size_t count = 0;
  int type = 0;
  Reduction reduction;
  std::string factor;               // the bytes of a premul_sum's factor, or
  const void* factor_at = nullptr;  // where the device reads it
  int peer = -1;                    // root; the other rank of a message
  bool sends = false;
  // Whether the memory of the call is, where there is any.
  std::optional<bool> registered;
};

// The ranks meet by keys: what the call is, and the how-manieth of its sort.
using Key = std::array<uint64_t, 4>;

// Threads: any.
class Clique {
 public:
  explicit Clique(int ranks) : size_(ranks) {}

  int size() const { return size_; }

  // A rank joins, or connects; `true` once all of `ranks` have come by this
  // key. `gone` ends the wait.
  bool wait_for_all(const Key& key, int rank, int ranks,
                    const std::function<bool()>& gone);
  // Runs the parts of one kernel, all at the same time: posts them, then waits
  // until the other ranks have posted theirs. The last one moves the data.
  // `gone` ends the wait; parts that nobody has met are then withdrawn.
  void run(int rank, int device, const std::vector<std::pair<Key, Part>>& parts,
           const std::function<bool()>& gone);
  // Looks at `gone` again.
  void wake();

 private:
  struct Posted {
    Part part;
    int rank = 0, device = 0;
  };
  struct Meeting {
    std::vector<Posted> posted;
    bool done = false, differs = false;
    int left = 0;  // ranks that have to see that it is done
  };

  void post(const Key& key, const Posted& posted);

  const int size_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<Key, Meeting> meetings_;
  std::map<Key, std::set<int>> joined_;
};

}  // namespace fakes::nccl

#endif  // DISTWRAP_TESTS_FAKES_NCCL_CLIQUE_H_
