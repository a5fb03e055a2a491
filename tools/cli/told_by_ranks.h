// Runs ranks that report their results to the command that starts them.
//
// Threads: as for `launch`.
#ifndef DISTWRAP_TOOLS_CLI_TOLD_BY_RANKS_H_
#define DISTWRAP_TOOLS_CLI_TOLD_BY_RANKS_H_

#include "command_line.h"

#include <absl/status/statusor.h>

#include <string>

namespace distwrap::cli {

// Runs `argv` with one more argument, a file to write, as a job of `ranks`.
// Returns the content of the file afterwards and removes all files that the
// ranks wrote into its folder. An error when a rank failed.
absl::StatusOr<std::string> told_by_ranks(int ranks, Words argv);

// Whether a launcher has started this process as a rank.
bool inside_a_job();

// The path of this executable, for the first word of `argv`.
absl::StatusOr<std::string> own_path();

}  // namespace distwrap::cli

#endif  // DISTWRAP_TOOLS_CLI_TOLD_BY_RANKS_H_
