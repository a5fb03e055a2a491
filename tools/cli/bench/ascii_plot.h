// Results as a picture made of letters, for a terminal.
#ifndef DISTWRAP_TOOLS_CLI_BENCH_ASCII_PLOT_H_
#define DISTWRAP_TOOLS_CLI_BENCH_ASCII_PLOT_H_

#include "bench/report.h"

#include <string>

namespace distwrap::bench {

// For every operation the latency over size, both on logarithmic axes: a letter
// for each contestant, * where several meet.
std::string ascii_plot(const Report& report);

}  // namespace distwrap::bench

#endif  // DISTWRAP_TOOLS_CLI_BENCH_ASCII_PLOT_H_
