// `distwrap bench redistribute`: the cost of redistribute between ranks.
#ifndef DISTWRAP_TOOLS_CLI_BENCH_REDISTRIBUTE_COMMAND_H_
#define DISTWRAP_TOOLS_CLI_BENCH_REDISTRIBUTE_COMMAND_H_

#include "command_line.h"

namespace distwrap::cli {

// Returns the exit code: 0; 1 when ranks failed; 2 for bad options.
int bench_redistribute_command(const Words& words);

CommandText bench_redistribute_text();

}  // namespace distwrap::cli

#endif  // DISTWRAP_TOOLS_CLI_BENCH_REDISTRIBUTE_COMMAND_H_
