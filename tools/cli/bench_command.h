// `distwrap bench`: options, ranks, exit code.
#ifndef DISTWRAP_TOOLS_CLI_BENCH_COMMAND_H_
#define DISTWRAP_TOOLS_CLI_BENCH_COMMAND_H_

#include "bench/contestant.h"
#include "command_line.h"

#include <string>
#include <vector>

namespace distwrap::cli {

// `distwrap bench`: compares backends, also with MPI libraries.
int bench_command(const std::vector<std::string>& arguments);

CommandText bench_text();

// The command for a program of its own, whose --vs offers `kinds`. As a rank of
// a launcher it joins the other ranks; otherwise it starts ranks itself, by
// running this executable with `words` and `arguments`. Returns the exit code:
// 0; 1 when measuring failed or a result was wrong; 2 for bad options.
int run_bench(const std::vector<std::string>& words,
              const std::vector<std::string>& arguments,
              const std::vector<bench::ContestantKind>& kinds);

}  // namespace distwrap::cli

#endif  // DISTWRAP_TOOLS_CLI_BENCH_COMMAND_H_
