// What one rank of `distwrap bench` does; rank 0 also tells the results.
#ifndef DISTWRAP_TOOLS_CLI_BENCH_RANK_H_
#define DISTWRAP_TOOLS_CLI_BENCH_RANK_H_

#include "bench/contestant.h"
#include "bench/options.h"

#include <absl/status/status.h>

#include <memory>
#include <vector>

namespace distwrap::bench {

// The place of this rank in its job.
struct Place {
  int rank = 0;
  int ranks = 1;
  int local_rank = 0;
  int local_ranks = 1;
  std::shared_ptr<Store> store = nullptr;
};

// Measures and prints. kDataLoss: measured, but results were wrong; which ones
// has been printed. `told_by_rank_0` of an error: this rank need not tell it.
absl::Status run_rank(const Options& options,
                      const std::vector<ContestantKind>& kinds,
                      const Place& place);

bool told_by_rank_0(const absl::Status& status);

// Binds the calling thread, and those it will start, to the n-th of the cores
// it may use. False, and nothing is done, when not every local rank has one.
bool pin(int local_rank, int local_ranks);

}  // namespace distwrap::bench

#endif  // DISTWRAP_TOOLS_CLI_BENCH_RANK_H_
