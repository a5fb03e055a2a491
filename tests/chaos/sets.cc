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
    {&kKilled, 12, 2000, 6},     {&kGroupsKilled, 8, 500, 4},
    {&kLeftChild, 4, 200, 3},    {&kStopped, 3, 80, 0},
    {&kMutated, 16, 2000, 6},    {&kAborted, 4, 100, 0},
    {&kLives, 4, 200, 0},        {&kForked, 3, 150, 0},
    {&kThreaded, 2, 30, 0},      {&kStepped, 2, 50, 0},
    {&kWindowsLost, 6, 300, 4},  {&kExpertsKilled, 6, 300, 3},
    {&kMeshesLost, 6, 200, 2},   {&kTwoKilled, 3, 200, 2},
    {&kNetworkCut, 0, 0, 3},     {&kNetworkPoor, 0, 0, 3},
    {&kNetworkDamaged, 0, 0, 6}, {&kRootLost, 0, 0, 4},
    {&kAgentKilled, 0, 0, 3}};

}  // namespace

std::vector<Share> shares_of(const std::string& set) {
  std::vector<Share> shares;
  for (const Row& row : kRows) {
    const int tries = set == "sample"  ? row.sample
                      : set == "long"  ? row.half_hour
                      : set == "hosts" ? row.hosts
                      : set == "full" && !row.which->needs_hosts()
                          ? row.which->full
                          : 0;
    if (tries > 0) shares.push_back({row.which, tries});
  }
  return shares;
}

}  // namespace distwrap::chaos
