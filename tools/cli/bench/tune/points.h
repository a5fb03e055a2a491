// What the ranks of `distwrap bench tune` do, and tell the command.
//
// Threads: one at a time.
#ifndef DISTWRAP_TOOLS_CLI_BENCH_TUNE_POINTS_H_
#define DISTWRAP_TOOLS_CLI_BENCH_TUNE_POINTS_H_

#include "bench/tune/experiments.h"

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>

#include <map>
#include <string>
#include <vector>

namespace distwrap::bench {

// Of each threshold, by its name, from the smallest size on.
using Points = std::map<std::string, std::vector<SizeRatio>>;

// As one of the ranks, in about so many seconds; `path` is written by rank 0.
absl::Status measure_points(double seconds, const std::string& path);

std::string write_points(const Points& points);
absl::StatusOr<Points> read_points(absl::string_view text);

}  // namespace distwrap::bench

#endif  // DISTWRAP_TOOLS_CLI_BENCH_TUNE_POINTS_H_
