// Times are judged by what the case promises, and by nothing else.
#include "chaos/tally.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace distwrap::chaos {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int64_t kMs = 1'000'000;
constexpr Measure kMeasures[] = {
    {"the error", absl::Milliseconds(100), absl::Milliseconds(500)},
    {"the end", absl::Milliseconds(50), absl::Milliseconds(50)}};
constexpr Case kCase{.name = "F0",
                     .what = "nothing happens",
                     .full = 1,
                     .measures = kMeasures,
                     .plan = nullptr,
                     .rank = nullptr,
                     .direct = nullptr};

// `n` times of 10 ms for the error, and these behind them.
Tally tally_of(size_t n, const std::vector<int64_t>& slow) {
  Tally tally;
  tally.which = &kCase;
  tally.setting.backend = "shm";
  tally.times = {std::vector<int64_t>(n, 10 * kMs), {}};
  for (const int64_t ms : slow) tally.times[0].push_back(ms * kMs);
  return tally;
}

TEST(BrokenPromises, AreNoneWhereAllTimesAreGood) {
  EXPECT_THAT(broken_promises({tally_of(99, {500}), tally_of(0, {})}),
              IsEmpty());
}

TEST(BrokenPromises, ThatHoldFor99Of100AreBrokenByTwo) {
  EXPECT_THAT(broken_promises({tally_of(98, {101, 500})}),
              ElementsAre(AllOf(HasSubstr("F0 over shm, the error: p99 of 100"),
                                HasSubstr("101.0 ms, promised are 100.0"))));
}

TEST(BrokenPromises, OfFewTimesAreThoseOfTheLongest) {
  EXPECT_THAT(broken_promises({tally_of(97, {101, 500})}), IsEmpty());
  EXPECT_THAT(broken_promises({tally_of(97, {101, 501})}),
              ElementsAre(HasSubstr("the longest of 99 times is 501.0 ms")));
}

TEST(BrokenPromises, AreLookedForInEachMeasure) {
  Tally tally = tally_of(1, {});
  tally.times[1] = {51 * kMs};
  EXPECT_THAT(broken_promises({tally}), ElementsAre(HasSubstr("the end")));
}

}  // namespace
}  // namespace distwrap::chaos
