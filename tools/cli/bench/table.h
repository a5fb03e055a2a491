// Results as tables for a terminal.
#ifndef DISTWRAP_TOOLS_CLI_BENCH_TABLE_H_
#define DISTWRAP_TOOLS_CLI_BENCH_TABLE_H_

#include "bench/report.h"

#include <string>

namespace distwrap::bench {

// Machine, plan and the meaning of the columns.
std::string heading(const Report& report);

// The table of one operation, with a line for each size.
std::string table(const Report& report, Operation op);

// Notes on the whole run: wrong elements, the control.
std::string summary(const Report& report);

}  // namespace distwrap::bench

#endif  // DISTWRAP_TOOLS_CLI_BENCH_TABLE_H_
