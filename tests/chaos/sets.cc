#include "chaos/sets.h"

#include "chaos/cases.h"

namespace distwrap::chaos {
namespace {

struct Row {
  const Case* which;
  int sample, half_hour;
  // Tries on several hosts, where the case is promised the same. The first run
  // beside other tests, so no rank is stopped in them and no network cut: the
  // heartbeat would measure the machine. The second are for a machine that does
  // nothing else.
  int hosts, hosts_alone;
};

constexpr Row kRows[] = {
    {&kKilled, 12, 2000, 6, 100},    {&kGroupsKilled, 8, 500, 4, 60},
    {&kLeftChild, 4, 200, 3, 30},    {&kStopped, 3, 80, 0, 40},
    {&kMutated, 16, 2000, 6, 60},    {&kAborted, 4, 100, 2, 40},
    {&kLives, 4, 200, 0, 0},         {&kForked, 3, 150, 0, 0},
    {&kThreaded, 2, 30, 0, 0},       {&kStepped, 2, 50, 0, 0},
    {&kWindowsLost, 6, 300, 4, 60},  {&kExpertsKilled, 6, 300, 3, 60},
    {&kMeshesLost, 6, 200, 2, 40},   {&kTwoKilled, 3, 200, 2, 60},
    {&kNetworkCut, 0, 0, 0, 40},     {&kNetworkPoor, 0, 0, 0, 40},
    {&kNetworkDamaged, 0, 0, 0, 25}, {&kRootLost, 0, 0, 0, 60},
    {&kAgentKilled, 0, 0, 3, 60},    {&kRankAgentKilled, 0, 0, 3, 60},
    {&kHostKilled, 0, 0, 2, 60},     {&kStrangers, 0, 0, 1, 20}};

}  // namespace

std::vector<Share> shares_of(const std::string& set) {
  std::vector<Share> shares;
  for (const Row& row : kRows) {
    const int tries = set == "sample"        ? row.sample
                      : set == "long"        ? row.half_hour
                      : set == "hosts"       ? row.hosts
                      : set == "hosts_alone" ? row.hosts_alone
                      : set == "full" && !row.which->needs_hosts()
                          ? row.which->full
                          : 0;
    if (tries > 0) shares.push_back({row.which, tries});
  }
  return shares;
}

}  // namespace distwrap::chaos
