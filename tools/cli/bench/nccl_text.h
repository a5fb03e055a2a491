// Results in the columns of nccl-tests, for what reads those.
#ifndef DISTWRAP_TOOLS_CLI_BENCH_NCCL_TEXT_H_
#define DISTWRAP_TOOLS_CLI_BENCH_NCCL_TEXT_H_

#include "bench/report.h"

#include <string>

namespace distwrap::bench {

// Machine and plan, behind #.
std::string nccl_heading(const Report& report);

// One operation: a block of lines for each contestant. All is out of place, so
// the columns for in place hold N/A.
std::string nccl_text(const Report& report, Operation op);

// The two lines at the end: wrong elements, mean bus bandwidth.
std::string nccl_summary(const Report& report);

}  // namespace distwrap::bench

#endif  // DISTWRAP_TOOLS_CLI_BENCH_NCCL_TEXT_H_
