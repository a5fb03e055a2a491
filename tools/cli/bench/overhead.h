// What distwrap costs: the same calls through it and straight into the
// loopback's table, in turns.
#ifndef DISTWRAP_TOOLS_CLI_BENCH_OVERHEAD_H_
#define DISTWRAP_TOOLS_CLI_BENCH_OVERHEAD_H_

#include "bench/report.h"

#include <string>

namespace distwrap::bench {

// A line for each operation and size, in nanoseconds.
std::string overhead_table(const Report& report);

}  // namespace distwrap::bench

#endif  // DISTWRAP_TOOLS_CLI_BENCH_OVERHEAD_H_
