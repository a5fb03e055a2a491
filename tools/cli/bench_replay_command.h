// `distwrap bench replay`: repeats the operations of a job.
#ifndef DISTWRAP_TOOLS_CLI_BENCH_REPLAY_COMMAND_H_
#define DISTWRAP_TOOLS_CLI_BENCH_REPLAY_COMMAND_H_

#include "command_line.h"

namespace distwrap::cli {

// Returns the exit code: 0; 1 when ranks failed; 2 for bad options and for jobs
// that cannot be replayed.
int bench_replay_command(const Words& words);

CommandText bench_replay_text();

}  // namespace distwrap::cli

#endif  // DISTWRAP_TOOLS_CLI_BENCH_REPLAY_COMMAND_H_
