// Results for programs, as JSON.
#ifndef DISTWRAP_TOOLS_CLI_BENCH_JSON_H_
#define DISTWRAP_TOOLS_CLI_BENCH_JSON_H_

#include "bench/report.h"

#include <string>

namespace distwrap::bench {

// One line for one measured row, without its end: peer, op, ranks, bytes,
// dtype, lat_us_min, lat_us_p50, lat_us_p99, algbw_GBps, iters, correct, as
// other measuring programs print it, and what we know beyond.
std::string json_line(const Row& row);

// The whole run, one document; `schema` counts its incompatible changes.
std::string json_document(const Report& report);

}  // namespace distwrap::bench

#endif  // DISTWRAP_TOOLS_CLI_BENCH_JSON_H_
