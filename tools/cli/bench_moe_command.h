// `distwrap bench moe`: the cost of mixtures of experts between ranks.
#ifndef DISTWRAP_TOOLS_CLI_BENCH_MOE_COMMAND_H_
#define DISTWRAP_TOOLS_CLI_BENCH_MOE_COMMAND_H_

#include "command_line.h"

namespace distwrap::cli {

// Returns the exit code: 0; 1 when ranks failed; 2 for bad options.
int bench_moe_command(const Words& words);

CommandText bench_moe_text();

}  // namespace distwrap::cli

#endif  // DISTWRAP_TOOLS_CLI_BENCH_MOE_COMMAND_H_
