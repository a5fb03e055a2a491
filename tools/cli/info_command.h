// `distwrap info`: shows this installation, its backends and its settings.
#ifndef DISTWRAP_TOOLS_CLI_INFO_COMMAND_H_
#define DISTWRAP_TOOLS_CLI_INFO_COMMAND_H_

#include "command_line.h"

namespace distwrap::cli {

// Returns the exit code: 0; 1 when a requested backend cannot be loaded or a
// folder has no recordings; 2 for bad options.
int info_command(const Words& words);
CommandText info_text();

}  // namespace distwrap::cli

#endif  // DISTWRAP_TOOLS_CLI_INFO_COMMAND_H_
