#include "chaos/sets.h"

#include "chaos/cases.h"

namespace distwrap::chaos {
namespace {

struct Row {
  const Case* which;
  int sample, half_hour;
  // Tries on several hosts, where the case is promised the same. They run
  // beside other tests, so no rank is stopped in them: its heartbeat would
  // measure the machine.
  int hosts;
};

constexpr Row kRows[] = {
    {&kKilled, 12, 2000, 6},    {&kGroupsKilled, 8, 500, 4},
    {&kLeftChild, 4, 200, 3},   {&kStopped, 3, 80, 0},
    {&kMutated, 16, 2000, 0},   {&kAborted, 4, 100, 0},
    {&kLives, 4, 200, 0},       {&kForked, 3, 150, 0},
    {&kThreaded, 2, 30, 0},     {&kStepped, 2, 50, 0},
    {&kWindowsLost, 6, 300, 4}, {&kExpertsKilled, 6, 300, 3},
    {&kMeshesLost, 6, 200, 2}};

}  // namespace

std::vector<Share> shares_of(const std::string& set) {
  std::vector<Share> shares;
  for (const Row& row : kRows) {
    if (set == "sample") shares.push_back({row.which, row.sample});
    if (set == "long") shares.push_back({row.which, row.half_hour});
    if (set == "full") shares.push_back({row.which, row.which->full});
    if (set == "hosts" && row.hosts > 0)
      shares.push_back({row.which, row.hosts});
  }
  return shares;
}

}  // namespace distwrap::chaos
