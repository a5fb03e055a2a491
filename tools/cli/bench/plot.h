// Results as a picture: latency and bandwidth over size for every operation, on
// logarithmic axes.
#ifndef DISTWRAP_TOOLS_CLI_BENCH_PLOT_H_
#define DISTWRAP_TOOLS_CLI_BENCH_PLOT_H_

#include "bench/report.h"

#include <string>

namespace distwrap::bench {

// An SVG document.
std::string plot(const Report& report);

}  // namespace distwrap::bench

#endif  // DISTWRAP_TOOLS_CLI_BENCH_PLOT_H_
