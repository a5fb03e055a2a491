// `distwrap run`: starts ranks of any program on this host.
#ifndef DISTWRAP_TOOLS_CLI_RUN_COMMAND_H_
#define DISTWRAP_TOOLS_CLI_RUN_COMMAND_H_

#include "command_line.h"

namespace distwrap::cli {

// Returns the exit code: that of the ranks (launcher.h), 1 when the job cannot
// be started, 2 for bad options.
int run_command(const Words& arguments);

CommandText run_text();

}  // namespace distwrap::cli

#endif  // DISTWRAP_TOOLS_CLI_RUN_COMMAND_H_
