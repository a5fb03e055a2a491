// `distwrap bench dispatch`: the cost of calling operators.
#ifndef DISTWRAP_TOOLS_CLI_BENCH_DISPATCH_COMMAND_H_
#define DISTWRAP_TOOLS_CLI_BENCH_DISPATCH_COMMAND_H_

#include "command_line.h"

namespace distwrap::cli {

// Returns the exit code: 0; 1 without the tensor library; 2 for bad options.
int bench_dispatch_command(const Words& words);

CommandText bench_dispatch_text();

}  // namespace distwrap::cli

#endif  // DISTWRAP_TOOLS_CLI_BENCH_DISPATCH_COMMAND_H_
