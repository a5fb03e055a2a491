// `distwrap bench tune`: measures the sizes from which other methods are faster
// on this machine.
#ifndef DISTWRAP_TOOLS_CLI_BENCH_TUNE_COMMAND_H_
#define DISTWRAP_TOOLS_CLI_BENCH_TUNE_COMMAND_H_

#include "command_line.h"

namespace distwrap::cli {

// Returns the exit code: 0; 1 when ranks failed; 2 for bad options.
int bench_tune_command(const Words& words);

CommandText bench_tune_text();

}  // namespace distwrap::cli

#endif  // DISTWRAP_TOOLS_CLI_BENCH_TUNE_COMMAND_H_
