// What making and ending groups takes between ranks that are processes of this
// host, with distwrap and with torch.distributed.
//
// The ranks of a row run once; rank 0 writes what it saw to a file that the
// command reads.
// Threads: one at a time.
#ifndef DISTWRAP_TOOLS_CLI_BENCH_GROUPS_MAKING_H_
#define DISTWRAP_TOOLS_CLI_BENCH_GROUPS_MAKING_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>

#include <string>

namespace distwrap::bench {

// Medians of rank 0, microseconds, each of a group of all ranks; below 0: there
// is no such call.
struct MakingRow {
  std::string engine;  // "distwrap/gloo"
  int ranks = 0;
  double split_us = -1, new_us = -1, destroy_us = -1;
  int rounds = 0;  // that were timed
};

// What one of the ranks does; `path` is written by rank 0.
absl::Status measure_making(const std::string& backend, double seconds,
                            const std::string& path);

// The same with torch.distributed over gloo: a Python program, whose arguments
// are the number of seconds and `path`.
extern const char* const kTorchProgram;

std::string write_times(const MakingRow& row);
// Of the engine and ranks that the caller fills in.
absl::StatusOr<MakingRow> read_times(absl::string_view text);

}  // namespace distwrap::bench

#endif  // DISTWRAP_TOOLS_CLI_BENCH_GROUPS_MAKING_H_
