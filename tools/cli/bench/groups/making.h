// The time to make and end groups between processes of this host, with distwrap
// and with torch.distributed.
//
// The ranks of a row run once; rank 0 writes its times to a file for the
// command.
// Threads: one at a time.
#ifndef DISTWRAP_TOOLS_CLI_BENCH_GROUPS_MAKING_H_
#define DISTWRAP_TOOLS_CLI_BENCH_GROUPS_MAKING_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>

#include <string>

namespace distwrap::bench {

// Medians of rank 0 in microseconds, for groups of all ranks. A negative value
// means that the engine has no such call.
struct MakingRow {
  std::string engine;  // "distwrap/gloo"
  int ranks = 0;
  double split_us = -1, new_us = -1, destroy_us = -1;
  int rounds = 0;  // timed rounds
};

// The body of one rank; rank 0 writes `path`.
absl::Status measure_making(const std::string& backend, double seconds,
                            const std::string& path);

// The Python program that measures torch.distributed over gloo. Its arguments
// are the number of seconds and `path`.
extern const char* const kTorchProgram;

std::string write_times(const MakingRow& row);
// Parses the times; the caller fills in the engine and the number of ranks.
absl::StatusOr<MakingRow> read_times(absl::string_view text);

}  // namespace distwrap::bench

#endif  // DISTWRAP_TOOLS_CLI_BENCH_GROUPS_MAKING_H_
