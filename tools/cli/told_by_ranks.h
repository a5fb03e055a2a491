// Ranks that a command starts to be told something.
//
// Threads: as of `launch`.
#ifndef DISTWRAP_TOOLS_CLI_TOLD_BY_RANKS_H_
#define DISTWRAP_TOOLS_CLI_TOLD_BY_RANKS_H_

#include "command_line.h"

#include <absl/status/statusor.h>

#include <string>

namespace distwrap::cli {

// Runs `argv` with one argument more, a file to write to, as a job of `ranks`:
// what is in the file afterwards. Whatever else ranks write into its folder
// goes with it. An error when a rank failed.
absl::StatusOr<std::string> told_by_ranks(int ranks, Words argv);

// Whether a launcher has started this process as a rank of its own.
bool inside_a_job();

// This very executable, as the first of `argv`.
absl::StatusOr<std::string> own_path();

}  // namespace distwrap::cli

#endif  // DISTWRAP_TOOLS_CLI_TOLD_BY_RANKS_H_
