// The sub-commands of `distwrap`: a row each, from which dispatch, --help, the
// manual page and completion come.
//
// Threads: constant.
#ifndef DISTWRAP_TOOLS_CLI_COMMANDS_H_
#define DISTWRAP_TOOLS_CLI_COMMANDS_H_

#include "command_line.h"

namespace distwrap::cli {

struct Command {
  const char* name;  // "run"; "bench groups": a word more after "bench"
  const char* summary;
  int (*main)(const Words&);  // the exit code
  CommandText (*text)();
};

// Sorted by name.
absl::Span<const Command> commands();

}  // namespace distwrap::cli

#endif  // DISTWRAP_TOOLS_CLI_COMMANDS_H_
