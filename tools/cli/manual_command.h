// `distwrap man` and `distwrap completion`: print the files that the build
// installs.
#ifndef DISTWRAP_TOOLS_CLI_MANUAL_COMMAND_H_
#define DISTWRAP_TOOLS_CLI_MANUAL_COMMAND_H_

#include "command_line.h"

namespace distwrap::cli {

int man_command(const Words& words);
CommandText man_text();

int completion_command(const Words& words);
CommandText completion_text();

}  // namespace distwrap::cli

#endif  // DISTWRAP_TOOLS_CLI_MANUAL_COMMAND_H_
