// The text below the options of --help.
#ifndef DISTWRAP_TOOLS_CLI_BENCH_HELP_H_
#define DISTWRAP_TOOLS_CLI_BENCH_HELP_H_

#include "bench/contestant.h"

#include <string>
#include <vector>

namespace distwrap::bench {

std::string help_footer(const std::vector<ContestantKind>& kinds);

// "  openmpi: ...", one line for each; those that cannot take part say why.
std::string list_of(const std::vector<ContestantKind>& kinds);

}  // namespace distwrap::bench

#endif  // DISTWRAP_TOOLS_CLI_BENCH_HELP_H_
