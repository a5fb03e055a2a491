// `distwrap info`: what this installation is and has.
#ifndef DISTWRAP_TOOLS_CLI_INFO_COMMAND_H_
#define DISTWRAP_TOOLS_CLI_INFO_COMMAND_H_

#include "command_line.h"

namespace distwrap::cli {

// The exit code: 0; 1 when a backend that was asked for cannot be loaded, or a
// folder has no recordings; 2 when the options are bad.
int info_command(const Words& words);
CommandText info_text();

}  // namespace distwrap::cli

#endif  // DISTWRAP_TOOLS_CLI_INFO_COMMAND_H_
