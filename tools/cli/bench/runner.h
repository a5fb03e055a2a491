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
  // At least one case; with cold caches they take turns.
  Runner(const std::vector<Case*>& cases, Contestant& contestant,
         SideChannel& side, const Plan& plan);

  // False: it has no such operation.
  absl::StatusOr<bool> first_call();
  absl::Status warm_up();
  // `last`: its result is checked too.
  absl::Status block(bool last);
  // What has been measured; ratio apart.
  Row row();

  const std::vector<double>& round_p50() const { return row_.round_p50_us; }
  // In blocks so far; the same on every rank.
  double spent_us() const { return spent_us_; }

 private:
  // `c`'s call, whose first result is checked. Null: no such operation.
  absl::StatusOr<std::unique_ptr<Call>> checked_call(Case& c);
  absl::Status check(Case& c, Call& call);
  absl::StatusOr<int64_t> early_leavers();
  // One block: a time for each clock reading, of the slowest rank, and how slow
  // a core was beside it.
  struct Times {
    std::vector<double> us;
    double slowdown = 1;
  };
  absl::StatusOr<Times> timed_block(bool last);
  // One call that meets nothing in a cache.
  absl::Status cold_call(int64_t& ns);
  absl::Status warm_up_cold();

  const std::vector<Case*>& cases_;
  Case& case_;  // the first
  Contestant& contestant_;
  SideChannel& side_;
  const Plan& plan_;
  std::vector<std::unique_ptr<Call>> calls_;  // of each case
  size_t turn_ = 0;                           // whose call comes next
  int64_t per_block_ = 0;
  std::vector<int64_t> ns_;    // of a block
  std::vector<double> times_;  // of all blocks, us
  double spent_us_ = 0;
  Row row_;
};

// Calls to be timed together when one takes `each_us`, so that a clock reading
// is of `timed_us` at least, or of one call that takes half of it. (It costs 20
// to 30 ns, and some more when it is not in the cache.)
int64_t batch_of(double each_us, double timed_us = Plan::least_timed_us(false));

}  // namespace distwrap::bench

#endif  // DISTWRAP_TOOLS_CLI_BENCH_RUNNER_H_
