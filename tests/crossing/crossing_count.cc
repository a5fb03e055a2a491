// Runs 1000 calls of each kind in a function of its own, which
// count_instructions.sh counts under callgrind.
#include "crossing/board_crossing.h"
#include "crossing/crossing.h"

#include <stdio.h>

namespace {

constexpr int kCalls = 1000;

}  // namespace

extern "C" {

[[gnu::noinline]] bool count_facade(distwrap::testing::Crossing& crossing) {
  bool good = true;
  for (int i = 0; i < kCalls; ++i) good = crossing.through_facade() && good;
  return good;
}

[[gnu::noinline]] bool count_straight(distwrap::testing::Crossing& crossing) {
  bool good = true;
  for (int i = 0; i < kCalls; ++i) good = crossing.straight() && good;
  return good;
}

[[gnu::noinline]] bool count_c(distwrap::testing::Crossing& crossing) {
  bool good = true;
  for (int i = 0; i < kCalls; ++i) good = crossing.through_c() && good;
  return good;
}

[[gnu::noinline]] bool count_c_group(distwrap::testing::Crossing& crossing) {
  bool good = true;
  for (int i = 0; i < kCalls; ++i) good = crossing.through_c_group() && good;
  return good;
}

[[gnu::noinline]] bool count_shown(distwrap::testing::BoardCrossing& crossing) {
  bool good = true;
  for (int i = 0; i < kCalls; ++i) good = crossing.shown() && good;
  return good;
}

[[gnu::noinline]] bool count_unshown(
    distwrap::testing::BoardCrossing& crossing) {
  bool good = true;
  for (int i = 0; i < kCalls; ++i) good = crossing.unshown() && good;
  return good;
}
}

namespace {

bool on_the_board() {
  distwrap::testing::BoardCrossing crossing;
  return crossing.shown() && crossing.unshown() && count_shown(crossing) &&
         count_unshown(crossing);
}

}  // namespace

int main() {
  distwrap::testing::Crossing crossing;
  // The first calls bind symbols and make the thread's slot.
  if (!crossing.through_facade() || !crossing.straight() ||
      !crossing.through_c() || !crossing.through_c_group())
    return 1;
  return count_facade(crossing) && count_straight(crossing) &&
                 count_c(crossing) && count_c_group(crossing) && on_the_board()
             ? 0
             : 1;
}
