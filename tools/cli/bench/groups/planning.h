// What making a group takes before a backend is asked: planning it, and what
// the ranks ask of the store; all ranks in one thread.
//
// Threads: pure functions.
#ifndef DISTWRAP_TOOLS_CLI_BENCH_GROUPS_PLANNING_H_
#define DISTWRAP_TOOLS_CLI_BENCH_GROUPS_PLANNING_H_

#include <cstdint>
#include <vector>

namespace distwrap::bench {

// Of all ranks together.
struct StoreTraffic {
  int64_t requests = 0;
  int64_t bytes = 0;  // keys and values, both ways
};

struct PlanningRow {
  int ranks = 0;
  // Microseconds, of one rank: its own group of all ranks; checking and
  // comparing lists of eights.
  double own_us = 0, lists_us = 0;
  StoreTraffic split;     // split_group with lists
  StoreTraffic by_color;  // split_group_by_color
};

// 2, 8, 32 ... to `most`, and that.
std::vector<int> planning_sizes(int most);

// `seconds` for each time.
PlanningRow measure_planning(int ranks, double seconds);

}  // namespace distwrap::bench

#endif  // DISTWRAP_TOOLS_CLI_BENCH_GROUPS_PLANNING_H_
