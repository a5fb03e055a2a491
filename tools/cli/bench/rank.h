// The body of one rank of `distwrap bench`; rank 0 also prints the results.
#ifndef DISTWRAP_TOOLS_CLI_BENCH_RANK_H_
#define DISTWRAP_TOOLS_CLI_BENCH_RANK_H_

#include "bench/compare.h"
#include "bench/contestant.h"
#include "bench/options.h"

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <functional>
#include <memory>
#include <optional>
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

// Measures and prints. kDataLoss: some results were wrong or slower than in
// `old`, and have been printed. `told_by_rank_0` tells whether rank 0 prints
// the error, so that this rank need not. `failed` is called with an error
// before the contestants are ended, which may take longer than the launcher
// waits.
absl::Status run_rank(const Options& options,
                      const std::vector<ContestantKind>& kinds,
                      const Place& place, const std::optional<OldRun>& old,
                      const std::function<void(const absl::Status&)>& failed);

// The run that --compare names, if any; the error says why it cannot be
// compared with this machine or with `options`.
absl::StatusOr<std::optional<OldRun>> read_old_run(const Options& options);

bool told_by_rank_0(const absl::Status& status);

// Binds the calling thread, and the threads that it will start, to the n-th
// core that it may use, counted cyclically. False when the system refuses.
bool pin(int local_rank);

}  // namespace distwrap::bench

#endif  // DISTWRAP_TOOLS_CLI_BENCH_RANK_H_
