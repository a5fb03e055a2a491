// The text below the options of --help.
#ifndef DISTWRAP_TOOLS_CLI_BENCH_HELP_H_
#define DISTWRAP_TOOLS_CLI_BENCH_HELP_H_

#include "bench/contestant.h"

#include <string>
#include <vector>

namespace distwrap::bench {

std::string help_footer(const std::vector<ContestantKind>& kinds);

// One line such as "  openmpi: ..." for each library; a library that cannot
// take part has the reason.
std::string list_of(const std::vector<ContestantKind>& kinds);

}  // namespace distwrap::bench

#endif  // DISTWRAP_TOOLS_CLI_BENCH_HELP_H_
