// Results in the columns of nccl-tests, for programs that parse those.
#ifndef DISTWRAP_TOOLS_CLI_BENCH_NCCL_TEXT_H_
#define DISTWRAP_TOOLS_CLI_BENCH_NCCL_TEXT_H_

#include "bench/report.h"

#include <string>

namespace distwrap::bench {

// The lines with machine and plan, which begin with #.
std::string nccl_heading(const Report& report);

// One operation: a block of lines for each contestant. All calls are out of
// place, so the columns for in place hold N/A.
std::string nccl_text(const Report& report, Operation op);

// The two lines at the end: wrong elements, mean bus bandwidth.
std::string nccl_summary(const Report& report);

}  // namespace distwrap::bench

#endif  // DISTWRAP_TOOLS_CLI_BENCH_NCCL_TEXT_H_
