// The sub-commands of `distwrap`, one row each. Dispatch, --help, the manual
// page and completion use this table.
//
// Threads: constant.
#ifndef DISTWRAP_TOOLS_CLI_COMMANDS_H_
#define DISTWRAP_TOOLS_CLI_COMMANDS_H_

#include "command_line.h"

namespace distwrap::cli {

struct Command {
  const char* name;  // "run"; "bench groups" is a second word after "bench"
  const char* summary;
  int (*main)(const Words&);  // returns the exit code
  CommandText (*text)();
};

// Sorted by name.
absl::Span<const Command> commands();

}  // namespace distwrap::cli

#endif  // DISTWRAP_TOOLS_CLI_COMMANDS_H_
