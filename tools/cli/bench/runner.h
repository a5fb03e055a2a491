// One contestant at one case: first call, warm-up, blocks.
//
// Threads: used by one; the ranks make the same calls in the same order.
// Ownership: borrows everything.
#ifndef DISTWRAP_TOOLS_CLI_BENCH_RUNNER_H_
#define DISTWRAP_TOOLS_CLI_BENCH_RUNNER_H_

#include "bench/measure.h"

#include <memory>
#include <vector>

namespace distwrap::bench {

class Runner {
 public:
  Runner(Case& c, Contestant& contestant, SideChannel& side, const Plan& plan);

  // False: it has no such operation.
  absl::StatusOr<bool> first_call();
  absl::Status warm_up();
  // `last`: its result is checked too.
  absl::Status block(bool last);
  // What has been measured; ratio apart.
  Row row();

  const std::vector<double>& round_p50() const { return row_.round_p50_us; }

 private:
  absl::Status check();
  absl::StatusOr<int64_t> early_leavers();

  Case& case_;
  Contestant& contestant_;
  SideChannel& side_;
  const Plan& plan_;
  std::unique_ptr<Call> call_;
  int64_t per_block_ = 0;
  std::vector<int64_t> clock_;  // readings of a block, ns
  std::vector<double> times_;   // of all blocks, us
  Row row_;
};

}  // namespace distwrap::bench

#endif  // DISTWRAP_TOOLS_CLI_BENCH_RUNNER_H_
