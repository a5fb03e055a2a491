// The output of `distwrap bench groups`.
//
// Threads: pure functions.
#ifndef DISTWRAP_TOOLS_CLI_BENCH_GROUPS_SHOW_H_
#define DISTWRAP_TOOLS_CLI_BENCH_GROUPS_SHOW_H_

#include "bench/groups/making.h"
#include "bench/groups/planning.h"
#include "bench/machine.h"

#include <string>
#include <vector>

namespace distwrap::bench {

struct GroupsReport {
  Machine machine;
  std::vector<PlanningRow> planning;
  std::vector<MakingRow> making;  // rows of distwrap come before the rows to
                                  // compare
};

std::string show_planning(const GroupsReport& report);
std::string show_making(const GroupsReport& report);
// One document; `schema` counts incompatible changes of the format.
std::string groups_json(const GroupsReport& report);
// An SVG document with the time of a rank's own group and its requests.
std::string plot_planning(const GroupsReport& report);

}  // namespace distwrap::bench

#endif  // DISTWRAP_TOOLS_CLI_BENCH_GROUPS_SHOW_H_
