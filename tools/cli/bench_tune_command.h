// `distwrap bench tune`: measures from which sizes on other ways are faster
// here.
#ifndef DISTWRAP_TOOLS_CLI_BENCH_TUNE_COMMAND_H_
#define DISTWRAP_TOOLS_CLI_BENCH_TUNE_COMMAND_H_

#include "command_line.h"

namespace distwrap::cli {

// The exit code: 0; 1 when ranks failed; 2 for bad options.
int bench_tune_command(const Words& words);

CommandText bench_tune_text();

}  // namespace distwrap::cli

#endif  // DISTWRAP_TOOLS_CLI_BENCH_TUNE_COMMAND_H_
