// One contestant in one case: first call, warm-up, blocks.
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
  // At least one case; with cold caches the cases take turns.
  Runner(const std::vector<Case*>& cases, Contestant& contestant,
         SideChannel& side, const Plan& plan);

  // False when the contestant lacks the operation.
  absl::StatusOr<bool> first_call();
  absl::Status warm_up();
  // With `last`, the block's result is checked.
  absl::Status block(bool last);
  // The measured row, without the ratio.
  Row row();

  const std::vector<double>& round_p50() const { return row_.round_p50_us; }
  // The time of all blocks so far; equal on every rank.
  double spent_us() const { return spent_us_; }

 private:
  // The call for `c`, whose first result is checked. Null without the
  // operation.
  absl::StatusOr<std::unique_ptr<TimedCall>> checked_call(Case& c);
  absl::Status check(Case& c, TimedCall& call);
  absl::StatusOr<int64_t> early_leavers();
  // One block: the time of the slowest rank for each clock reading, and the
  // slowness of a core meanwhile.
  struct Times {
    std::vector<double> us;
    double slowdown = 1;
  };
  absl::StatusOr<Times> timed_block(bool last);
  // One call with cold caches.
  absl::Status cold_call(int64_t& ns);
  absl::Status warm_up_cold();

  const std::vector<Case*>& cases_;
  Case& case_;  // the first
  Contestant& contestant_;
  SideChannel& side_;
  const Plan& plan_;
  std::vector<std::unique_ptr<TimedCall>> calls_;  // one call for each case
  size_t turn_ = 0;                                // index of the next call
  int64_t per_block_ = 0;
  std::vector<int64_t> ns_;    // times of a block
  std::vector<double> times_;  // times of all blocks, us
  double spent_us_ = 0;
  Row row_;
};

// The number of calls to time together when one takes `each_us`, so that they
// take at least `timed_us`. A single call that takes half of it is timed alone.
// Reading the clock costs 20 to 30 ns, more when its code is not in the cache.
int64_t batch_of(double each_us, double timed_us = Plan::least_timed_us(false));

}  // namespace distwrap::bench

#endif  // DISTWRAP_TOOLS_CLI_BENCH_RUNNER_H_
