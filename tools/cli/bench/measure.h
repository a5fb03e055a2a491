// Measuring contestants against each other, fairly: they take turns, block by
// block, in one set of processes.
//
// For one case every contestant first makes a call whose result is checked on
// all ranks, then warms up in growing batches until it is known how many calls
// fit the time of a block. Then come the rounds. In each, every contestant runs
// one block, in an order that changes from round to round; before a block the
// ranks meet, and between its calls they do not. The time of an iteration is
// that of its slowest rank. Calls under a microsecond are timed several at a
// time, so that reading the clock does not show.
#ifndef DISTWRAP_TOOLS_CLI_BENCH_MEASURE_H_
#define DISTWRAP_TOOLS_CLI_BENCH_MEASURE_H_

#include "bench/case.h"
#include "bench/contestant.h"
#include "bench/side_channel.h"
#include "bench/statistics.h"

#include <absl/status/statusor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace distwrap::bench {

struct Plan {
  double seconds = 0.02;  // of one block
  int rounds = 5;
  int64_t iterations = 0;  // of one block; 0: what fits `seconds`
  int64_t warmup = -1;     // calls; -1: in growing batches
  bool check = true;
};

// One contestant at one case. Times are those of one operation, microseconds.
struct Row {
  std::string contestant = {};
  Spec spec = {};
  int64_t in_bytes = 0;
  int64_t out_bytes = 0;
  // It has this operation; else all below is empty.
  bool measured = false;
  int64_t iterations = 0;  // over all rounds
  int64_t batch = 1;       // calls in one clock reading
  double first_us = 0;     // the very first call
  double min_us = 0, p50_us = 0, p90_us = 0, p99_us = 0, max_us = 0;
  std::vector<double> round_p50_us = {};
  // Elements over all ranks and checks; of a barrier, ranks that left before
  // all had entered.
  int64_t wrong = 0;
  // To the baseline; not of the baseline itself.
  std::optional<Ratio> ratio = std::nullopt;

  double algbw() const;  // GB/s
  double busbw() const;  // GB/s
};

// In which order `count` contestants take their turns in a round: all orders
// of two or three come equally often (A B, B A, B A, A B ...).
std::vector<size_t> turns(size_t count, int round);

// A row for each contestant, the same on every rank. `baseline` is the index of
// the one that ratios refer to.
absl::StatusOr<std::vector<Row>> measure(
    Case& c, const std::vector<Contestant*>& contestants, size_t baseline,
    SideChannel& side, const Plan& plan);

}  // namespace distwrap::bench

#endif  // DISTWRAP_TOOLS_CLI_BENCH_MEASURE_H_
