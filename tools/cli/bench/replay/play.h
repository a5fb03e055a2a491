// Runs a script.
#ifndef DISTWRAP_TOOLS_CLI_BENCH_REPLAY_PLAY_H_
#define DISTWRAP_TOOLS_CLI_BENCH_REPLAY_PLAY_H_

#include "bench/replay/script.h"

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>

#include <cstdint>
#include <string>
#include <vector>

namespace distwrap::bench {

// The times of one kind of operation over all repetitions.
struct ReplayRow {
  std::string op;
  int64_t calls = 0;  // calls of all ranks
  int64_t bytes = 0;  // input and output of all ranks
  // Microseconds in calls and in waiting for their ends: of the slowest rank,
  // and the mean over all ranks' calls.
  double slowest_us = 0, mean_us = 0;
};

struct ReplayTimes {
  double total_us = 0;  // from the first call to the last end, slowest rank
  std::vector<ReplayRow> rows;  // kinds that were called
};

// The body of one rank, on the thread's session. The result is equal on all
// ranks.
absl::StatusOr<ReplayTimes> play(const ReplayScript& script, int repeat);

// Writes the times as lines, and reads them.
std::string write_times(const ReplayTimes& times);
absl::StatusOr<ReplayTimes> read_replay_times(absl::string_view text);

// The plan of a replay without running it: groups, kinds and amounts.
std::string show_plan(const ReplayScript& script, const std::string& backend);
std::string show_replay(const ReplayScript& script, const ReplayTimes& times,
                        const std::string& backend, int repeat);
// One document; `times` is null for a plan.
std::string replay_json(const ReplayScript& script, const ReplayTimes* times,
                        const std::string& backend, int repeat);

}  // namespace distwrap::bench

#endif  // DISTWRAP_TOOLS_CLI_BENCH_REPLAY_PLAY_H_
