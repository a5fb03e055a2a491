// Text and JSON of a simulated exchange.
//
// Threads: values.
#ifndef DISTWRAP_TOOLS_CLI_BENCH_MOE_SHOW_SIMULATED_H_
#define DISTWRAP_TOOLS_CLI_BENCH_MOE_SHOW_SIMULATED_H_

#include "bench/moe/router.h"
#include "bench/moe/simulate.h"

#include <cstdint>
#include <string>
#include <vector>

namespace distwrap::bench {

struct SimulatedPhase {
  std::string name;  // "dispatch", "combine"
  int64_t row_bytes = 0;
  Simulated result;
};

struct SimulatedReport {
  SimulateSpec spec;
  RouterSpec router;
  int64_t hidden = 0;
  std::vector<SimulatedPhase> phases = {};  // at least one
};

std::string show_simulated(const SimulatedReport& report);
std::string simulated_json(const SimulatedReport& report);

}  // namespace distwrap::bench

#endif  // DISTWRAP_TOOLS_CLI_BENCH_MOE_SHOW_SIMULATED_H_
