// The body of the ranks of `distwrap bench tune`, and their results for the
// command.
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

// The ratios of each threshold, by its name, sorted by size.
using Points = std::map<std::string, std::vector<SizeRatio>>;

// Runs as one of the ranks for about so many seconds; rank 0 writes `path`.
absl::Status measure_points(double seconds, const std::string& path);

std::string write_points(const Points& points);
absl::StatusOr<Points> read_points(absl::string_view text);

}  // namespace distwrap::bench

#endif  // DISTWRAP_TOOLS_CLI_BENCH_TUNE_POINTS_H_
