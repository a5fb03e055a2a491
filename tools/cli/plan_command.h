// `distwrap plan`: shows how a tensor would get from one layout to another,
// for any mesh, without starting ranks.
#ifndef DISTWRAP_TOOLS_CLI_PLAN_COMMAND_H_
#define DISTWRAP_TOOLS_CLI_PLAN_COMMAND_H_

#include "command_line.h"

namespace distwrap::cli {

// Returns the exit code: 0; 1 for layouts between which there is no plan; 2
// for bad options.
int plan_command(const Words& words);
CommandText plan_text();

}  // namespace distwrap::cli

#endif  // DISTWRAP_TOOLS_CLI_PLAN_COMMAND_H_
