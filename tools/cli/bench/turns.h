// Contestants of one job that take turns, so that what slows the machine slows
// all of them.
//
// Threads: the ranks' own.
#ifndef DISTWRAP_TOOLS_CLI_BENCH_TURNS_H_
#define DISTWRAP_TOOLS_CLI_BENCH_TURNS_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <absl/types/span.h>

#include <functional>
#include <vector>

namespace distwrap::bench {

using Timed = std::function<absl::Status()>;

// Microseconds of a call: for each contestant one value for each round. A block
// of `calls` calls is timed after the ranks have met. One more round warms up,
// and each round begins with another contestant. Collective.
absl::StatusOr<std::vector<std::vector<double>>> take_turns(
    absl::Span<const Timed> contestants, int rounds, int calls);

}  // namespace distwrap::bench

#endif  // DISTWRAP_TOOLS_CLI_BENCH_TURNS_H_
