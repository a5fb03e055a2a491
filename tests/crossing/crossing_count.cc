// Runs 1000 calls of each kind in a function of its own, which
// count_instructions.sh counts under callgrind.
#include "crossing/crossing.h"

#include <stdio.h>

namespace {

constexpr int kCalls = 1000;

}  // namespace

extern "C" {

[[gnu::noinline]] bool count_through_facade(
    distwrap::testing::Crossing& crossing) {
  bool good = true;
  for (int i = 0; i < kCalls; ++i) good = crossing.through_facade() && good;
  return good;
}

[[gnu::noinline]] bool count_straight(distwrap::testing::Crossing& crossing) {
  bool good = true;
  for (int i = 0; i < kCalls; ++i) good = crossing.straight() && good;
  return good;
}
}

int main() {
  distwrap::testing::Crossing crossing;
  // first calls bind symbols and make the thread's slot
  if (!crossing.through_facade() || !crossing.straight()) return 1;
  return count_through_facade(crossing) && count_straight(crossing) ? 0 : 1;
}
