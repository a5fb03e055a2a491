// The kernels of NCCL that have been launched and have not ended. A kernel
// begins when those before it on its rank have ended, and ends when the other
// ranks have begun theirs with the same calls, so ranks that launch in
// different orders wait for each other for ever.
#ifndef DISTWRAP_TESTS_FAKES_NCCL_ORDER_H_
#define DISTWRAP_TESTS_FAKES_NCCL_ORDER_H_

#include "fakes/nccl/clique.h"

#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

struct CUstream_st;

namespace fakes::nccl {

// A call as all its ranks know it: their communicator, and its key there.
using Call = std::pair<const Clique*, Key>;

// A kernel of a rank that has been launched.
struct Launched {
  std::vector<Call> calls;
  std::vector<std::shared_ptr<Launched>> before;
  bool ended = false;
};

// One order serves all ranks that are threads; it does not see graphs.
// Threads: any.
class LaunchOrder {
 public:
  // Adds a kernel behind those of its streams, and behind `previous`, the last
  // one of its communicator; null: none. A kernel that waits for itself breaks
  // a rule.
  std::shared_ptr<Launched> add(std::vector<Call> calls,
                                const std::vector<CUstream_st*>& streams,
                                const std::shared_ptr<Launched>& previous);
  // The kernel has run, or its communicator has ended.
  void end(const std::shared_ptr<Launched>& kernel);

 private:
  bool waits_for_itself(const Launched& kernel) const;

  std::mutex mutex_;
  std::map<Call, std::vector<std::shared_ptr<Launched>>> ranks_;
  std::map<CUstream_st*, std::weak_ptr<Launched>> last_;
};

}  // namespace fakes::nccl

#endif  // DISTWRAP_TESTS_FAKES_NCCL_ORDER_H_
