// The cost of distwrap: the same calls through distwrap and directly into the
// loopback's table, in turns.
#ifndef DISTWRAP_TOOLS_CLI_BENCH_OVERHEAD_H_
#define DISTWRAP_TOOLS_CLI_BENCH_OVERHEAD_H_

#include "bench/report.h"

#include <string>

namespace distwrap::bench {

// A line in nanoseconds for each operation and size.
std::string overhead_table(const Report& report);

}  // namespace distwrap::bench

#endif  // DISTWRAP_TOOLS_CLI_BENCH_OVERHEAD_H_
