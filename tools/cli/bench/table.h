// Results as people read them in a terminal.
#ifndef DISTWRAP_TOOLS_CLI_BENCH_TABLE_H_
#define DISTWRAP_TOOLS_CLI_BENCH_TABLE_H_

#include "bench/report.h"

#include <string>
#include <vector>

namespace distwrap::bench {

// Lines of cells, each column as wide as its widest cell; the first column and
// all that are numbers stand right. A cell may hold UTF-8.
std::string aligned(const std::vector<std::vector<std::string>>& lines);

// Machine, plan and what the columns mean.
std::string heading(const Report& report);

// One operation: a line for each size.
std::string table(const Report& report, Operation op);

// What is to be known about the whole: wrong elements, the control.
std::string summary(const Report& report);

// 0.0123, 1.23, 12.3, 1234: what can be told apart, and no more.
std::string format_number(double value);

}  // namespace distwrap::bench

#endif  // DISTWRAP_TOOLS_CLI_BENCH_TABLE_H_
