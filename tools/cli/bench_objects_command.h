// `distwrap bench objects`: the cost of objects between ranks.
#ifndef DISTWRAP_TOOLS_CLI_BENCH_OBJECTS_COMMAND_H_
#define DISTWRAP_TOOLS_CLI_BENCH_OBJECTS_COMMAND_H_

#include "command_line.h"

namespace distwrap::cli {

// Returns the exit code: 0; 1 when ranks failed; 2 for bad options.
int bench_objects_command(const Words& words);

CommandText bench_objects_text();

}  // namespace distwrap::cli

#endif  // DISTWRAP_TOOLS_CLI_BENCH_OBJECTS_COMMAND_H_
