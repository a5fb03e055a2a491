// Measures contestants against each other fairly: they take turns, block by
// block, in the same processes.
//
// For each case every contestant first makes a call whose result is checked on
// all ranks. It then warms up in growing batches until the number of calls that
// fit into the time of a block is known. Rounds follow. In each round every
// contestant runs one block, in a random order; the ranks meet before a block
// but not between its calls. The time of an iteration is that of its slowest
// rank. Calls of a few microseconds or less are timed several at a time, so
// that reading the clock does not matter. A block during which a core was
// slowed by another guest is repeated, for every contestant alike. The rounds
// end when the figures are precise enough or the time is over; the result of
// the last round is checked.
//
// With cold caches every call is timed alone: the ranks empty their caches,
// meet, and begin at the same moment, on buffers that rotate.
#ifndef DISTWRAP_TOOLS_CLI_BENCH_MEASURE_H_
#define DISTWRAP_TOOLS_CLI_BENCH_MEASURE_H_

#include "bench/case.h"
#include "bench/cold.h"
#include "bench/contestant.h"
#include "bench/side_channel.h"
#include "bench/statistics.h"

#include <absl/status/statusor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace distwrap::bench {

struct Plan {
  // The time of one contestant for one case, over all rounds.
  double seconds = 0.2;
  int rounds = 0;           // 0: until precise or out of time
  double precision = 0.02;  // relative half width that ends the rounds
  int64_t iterations = 0;   // calls in a block; 0: as many as fit
  // The shortest time between two clock readings; several calls may fit into
  // it.
  double timed_us = least_timed_us(false);
  int64_t warmup = -1;  // calls; -1: growing batches
  bool check = true;
  bool overhead = false;  // report the time beyond the baseline's
  std::shared_ptr<Evictor> evictor = nullptr;  // null: caches stay warm
  // The present slowness of this rank's core relative to its best; null: not
  // measured.
  std::function<double()> slowdown = nullptr;

  // `share`: there are more ranks than cores. In each call some rank has just
  // lost its core, often another rank than in the previous call, so the sum of
  // the slowest times of single calls is up to twice the time of all calls.
  static constexpr double least_timed_us(bool share) { return share ? 100 : 5; }
  int least_rounds() const;
  int most_rounds() const;
  double block_seconds() const { return seconds / most_rounds(); }
};

// One contestant in one case. Times are microseconds of one operation.
struct Row {
  std::string contestant = {};
  Spec spec = {};
  int64_t in_bytes = 0;
  int64_t out_bytes = 0;
  // The contestant has the operation; otherwise all fields below are empty
  // except `why`.
  bool measured = false;
  std::string why_not = {};
  int64_t iterations = 0;  // over all rounds
  int64_t batch = 1;       // calls between two clock readings
  double first_us = 0;     // time of the very first call
  double min_us = 0, p50_us = 0, p90_us = 0, p99_us = 0, p999_us = 0,
         max_us = 0;
  Interval p50_interval = {};  // from the medians of the rounds
  std::vector<double> round_p50_us = {};
  // Repeated blocks, and rounds that were disturbed even so.
  int64_t repeated = 0, disturbed = 0;
  // The shortest possible time on this machine for these bytes; 0: not
  // measured.
  double limit_us = 0;
  // Wrong elements over all ranks and checks. For a barrier, the ranks that
  // left before all had entered.
  int64_t wrong = 0;
  // The ratio to the baseline; empty for the baseline itself.
  std::optional<Ratio> ratio = std::nullopt;
  // With Plan::overhead, the time beyond the baseline's in ns.
  std::optional<Difference> overhead_ns = std::nullopt;

  double algbw() const;  // GB/s
  double busbw() const;  // GB/s
  // limit / measured: 1 is as fast as possible; 0 when not known.
  double reached() const;
};

// The order in which `count` contestants run in a round. It is drawn for every
// second round and reversed in the next one, so that each contestant runs as
// often before another as after it.
std::vector<size_t> turns(size_t count, int round, uint64_t seed);

// One row for each contestant, equal on every rank. `baseline` is the index of
// the contestant to which ratios refer.
absl::StatusOr<std::vector<Row>> measure(
    Case& c, const std::vector<Contestant*>& contestants, size_t baseline,
    SideChannel& side, const Plan& plan);

}  // namespace distwrap::bench

#endif  // DISTWRAP_TOOLS_CLI_BENCH_MEASURE_H_
