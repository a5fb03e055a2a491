#include "chaos/sets.h"

#include "chaos/cases.h"

namespace distwrap::chaos {
namespace {

struct Row {
  const Case* which;
  int sample, half_hour;
};

constexpr Row kRows[] = {
    {&kKilled, 12, 2000}, {&kGroupsKilled, 8, 500}, {&kLeftChild, 4, 200},
    {&kStopped, 3, 80},   {&kMutated, 16, 2000},    {&kAborted, 4, 100},
    {&kLives, 4, 200},    {&kForked, 3, 150},       {&kThreaded, 2, 30},
    {&kStepped, 2, 50},   {&kWindowsLost, 6, 300},  {&kExpertsKilled, 6, 300}};

}  // namespace

std::vector<Share> shares_of(const std::string& set) {
  std::vector<Share> shares;
  for (const Row& row : kRows) {
    if (set == "sample") shares.push_back({row.which, row.sample});
    if (set == "long") shares.push_back({row.which, row.half_hour});
    if (set == "full") shares.push_back({row.which, row.which->full});
  }
  return shares;
}

}  // namespace distwrap::chaos
