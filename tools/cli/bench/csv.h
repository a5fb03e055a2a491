// Results as comma-separated values, for spreadsheets.
#ifndef DISTWRAP_TOOLS_CLI_BENCH_CSV_H_
#define DISTWRAP_TOOLS_CLI_BENCH_CSV_H_

#include "bench/report.h"

#include <string>

namespace distwrap::bench {

// A header line, then one line for each measured row.
std::string csv(const Report& report);

}  // namespace distwrap::bench

#endif  // DISTWRAP_TOOLS_CLI_BENCH_CSV_H_
