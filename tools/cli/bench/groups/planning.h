// The cost of a group before a backend is involved: the planning, and the
// requests to the store. All ranks run in one thread.
//
// Threads: pure functions.
#ifndef DISTWRAP_TOOLS_CLI_BENCH_GROUPS_PLANNING_H_
#define DISTWRAP_TOOLS_CLI_BENCH_GROUPS_PLANNING_H_

#include <cstdint>
#include <vector>

namespace distwrap::bench {

// The requests of all ranks together.
struct StoreTraffic {
  int64_t requests = 0;
  int64_t bytes = 0;  // keys and values in both directions
};

struct PlanningRow {
  int ranks = 0;
  // Microseconds of one rank: planning its own group of all ranks, and checking
  // and comparing lists of eight ranks.
  double own_us = 0, lists_us = 0;
  StoreTraffic split;     // split_group with lists
  StoreTraffic by_color;  // split_group_by_color
};

// 2, 8, 32 and so on up to `most`, and `most` itself.
std::vector<int> planning_sizes(int most);

// Spends `seconds` on each time.
PlanningRow measure_planning(int ranks, double seconds);

}  // namespace distwrap::bench

#endif  // DISTWRAP_TOOLS_CLI_BENCH_GROUPS_PLANNING_H_
