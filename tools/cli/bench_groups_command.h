// `distwrap bench groups`: the cost of making and ending groups.
#ifndef DISTWRAP_TOOLS_CLI_BENCH_GROUPS_COMMAND_H_
#define DISTWRAP_TOOLS_CLI_BENCH_GROUPS_COMMAND_H_

#include "command_line.h"

namespace distwrap::cli {

// Returns the exit code: 0; 1 when ranks failed; 2 for bad options.
int bench_groups_command(const Words& words);

CommandText bench_groups_text();

}  // namespace distwrap::cli

#endif  // DISTWRAP_TOOLS_CLI_BENCH_GROUPS_COMMAND_H_
