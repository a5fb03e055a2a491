// Results as people read them in a terminal.
#ifndef DISTWRAP_TOOLS_CLI_BENCH_TABLE_H_
#define DISTWRAP_TOOLS_CLI_BENCH_TABLE_H_

#include "bench/report.h"

#include <string>

namespace distwrap::bench {

// Machine, plan and what the columns mean.
std::string heading(const Report& report);

// One operation: a line for each size.
std::string table(const Report& report, Operation op);

// What is to be known about the whole: wrong elements, the control.
std::string summary(const Report& report);

}  // namespace distwrap::bench

#endif  // DISTWRAP_TOOLS_CLI_BENCH_TABLE_H_
