// Doing a script again.
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

// What a kind of operation took, in all repetitions.
struct ReplayRow {
  std::string op;
  int64_t calls = 0;  // of all ranks
  int64_t bytes = 0;  // given and taken, by all ranks
  // In calls and in waiting for what they began: of the slowest rank, and all
  // ranks' mean for a call. Microseconds.
  double slowest_us = 0, mean_us = 0;
};

struct ReplayTimes {
  double total_us = 0;  // from the first call to the last end, slowest rank
  std::vector<ReplayRow> rows;  // kinds that were called
};

// What one of the ranks does; the session is the thread's. The same on all.
absl::StatusOr<ReplayTimes> play(const ReplayScript& script, int repeat);

// As a line for each row, and back.
std::string write_times(const ReplayTimes& times);
absl::StatusOr<ReplayTimes> read_replay_times(absl::string_view text);

// What would be done, without doing it: groups, kinds and how much of them.
std::string show_plan(const ReplayScript& script, const std::string& backend);
std::string show_replay(const ReplayScript& script, const ReplayTimes& times,
                        const std::string& backend, int repeat);
// One document; `times` may be null, of a plan.
std::string replay_json(const ReplayScript& script, const ReplayTimes* times,
                        const std::string& backend, int repeat);

}  // namespace distwrap::bench

#endif  // DISTWRAP_TOOLS_CLI_BENCH_REPLAY_PLAY_H_
