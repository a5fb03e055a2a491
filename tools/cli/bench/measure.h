// Measuring contestants against each other, fairly: they take turns, block by
// block, in one set of processes.
//
// For one case every contestant first makes a call whose result is checked on
// all ranks, then warms up in growing batches until it is known how many calls
// fit the time of a block. Then come the rounds. In each, every contestant runs
// one block, in an order that is drawn anew; before a block the ranks meet, and
// between its calls they do not. The time of an iteration is that of its
// slowest rank. Calls of a few microseconds and less are timed several at a
// time, so that reading the clock does not show. A block during which a core
// was slowed by others is measured again, for every contestant alike. Rounds
// end when the figures are precise enough or the time is up; the result of the
// last is checked.
//
// With cold caches every call is timed alone: the ranks empty their caches,
// meet, and begin at one moment, on buffers that rotate.
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
  // Of one contestant at one case, over all rounds.
  double seconds = 0.2;
  int rounds = 0;           // 0: until precise or out of time
  double precision = 0.02;  // relative half width that ends the rounds
  int64_t iterations = 0;   // of one block; 0: what fits its time
  // Of one clock reading, at least, in which several calls may fit.
  double timed_us = least_timed_us(false);
  int64_t warmup = -1;  // calls; -1: in growing batches
  bool check = true;
  bool overhead = false;  // what is more than the baseline's time is told
  std::shared_ptr<Evictor> evictor = nullptr;  // null: caches stay warm
  // How slow this rank's core is now beside its best; null: nobody asks.
  std::function<double()> slowdown = nullptr;

  // `share`: there are more ranks than cores. Each call then finds some rank
  // that has just lost its core, often another one than the call before: what
  // the slowest rank of each takes adds up to twice the time of all calls.
  static constexpr double least_timed_us(bool share) { return share ? 100 : 5; }
  int least_rounds() const;
  int most_rounds() const;
  double block_seconds() const { return seconds / most_rounds(); }
};

// One contestant at one case. Times are those of one operation, microseconds.
struct Row {
  std::string contestant = {};
  Spec spec = {};
  int64_t in_bytes = 0;
  int64_t out_bytes = 0;
  // It has this operation; else all below is empty, but for why.
  bool measured = false;
  std::string why_not = {};
  int64_t iterations = 0;  // over all rounds
  int64_t batch = 1;       // calls in one clock reading
  double first_us = 0;     // the very first call
  double min_us = 0, p50_us = 0, p90_us = 0, p99_us = 0, p999_us = 0,
         max_us = 0;
  Interval p50_interval = {};  // by the rounds
  std::vector<double> round_p50_us = {};
  // Blocks that were measured again, and rounds that are disturbed even so.
  int64_t repeated = 0, disturbed = 0;
  // The least time that the bytes need on this machine; 0: was not measured.
  double limit_us = 0;
  // Elements over all ranks and checks; of a barrier, ranks that left before
  // all had entered.
  int64_t wrong = 0;
  // To the baseline; not of the baseline itself.
  std::optional<Ratio> ratio = std::nullopt;
  // With Plan::overhead, likewise: what it takes longer, ns.
  std::optional<Difference> overhead_ns = std::nullopt;

  double algbw() const;  // GB/s
  double busbw() const;  // GB/s
  // limit / measured: 1 is as fast as can be; 0 when not known.
  double reached() const;
};

// In which order `count` contestants take their turns in a round: drawn for
// every second round, and the reverse in the next, so that each is as often
// before another as after it.
std::vector<size_t> turns(size_t count, int round, uint64_t seed);

// A row for each contestant, the same on every rank. `baseline` is the index of
// the one that ratios refer to.
absl::StatusOr<std::vector<Row>> measure(
    Case& c, const std::vector<Contestant*>& contestants, size_t baseline,
    SideChannel& side, const Plan& plan);

}  // namespace distwrap::bench

#endif  // DISTWRAP_TOOLS_CLI_BENCH_MEASURE_H_
