#include "bench/statistics.h"

#include <gtest/gtest.h>

namespace distwrap::bench {
namespace {

TEST(Statistics, Percentiles) {
  std::vector<double> values;
  for (int i = 0; i < 200; ++i) values.push_back(i);
  EXPECT_EQ(percentile(values, 0), 0);
  EXPECT_EQ(percentile(values, 0.5), 100);
  EXPECT_EQ(percentile(values, 0.99), 198);
  EXPECT_EQ(percentile(values, 1), 199);
  EXPECT_EQ(percentile({}, 0.5), 0);
  EXPECT_EQ(percentile({7}, 0.99), 7);
}

TEST(Statistics, Median) {
  EXPECT_EQ(median({3, 1, 2}), 2);
  EXPECT_EQ(median({4, 1, 3, 2}), 2.5);
  EXPECT_EQ(median({5}), 5);
  EXPECT_EQ(median({}), 0);
}

TEST(Statistics, EqualContestantsHaveARatioOfOneWithoutDoubt) {
  const std::vector<double> times = {10, 30, 20, 50};
  const Ratio ratio = paired_ratio(times, times);
  EXPECT_EQ(ratio.median, 1);
  EXPECT_EQ(ratio.low, 1);
  EXPECT_EQ(ratio.high, 1);
}

// Whatever slows a round down hits both: the ratio does not see it.
TEST(Statistics, NoiseThatHitsBothCancels) {
  std::vector<double> a, b;
  for (int round = 0; round < 21; ++round) {
    const double noise = 1 + (round * 7 % 13);
    b.push_back(100 * noise);
    a.push_back(105 * noise);
  }
  const Ratio ratio = paired_ratio(a, b);
  EXPECT_NEAR(ratio.median, 1.05, 1e-9);
  EXPECT_NEAR(ratio.low, 1.05, 1e-9);
  EXPECT_NEAR(ratio.high, 1.05, 1e-9);
}

TEST(Statistics, TheIntervalHoldsTheMedianAndWhatVaries) {
  std::vector<double> a, b;
  for (int round = 0; round < 40; ++round) {
    a.push_back(100 + round % 10);  // 1.00 to 1.09
    b.push_back(100);
  }
  const Ratio ratio = paired_ratio(a, b);
  EXPECT_NEAR(ratio.median, 1.045, 1e-9);
  EXPECT_LT(ratio.low, ratio.median);
  EXPECT_GT(ratio.high, ratio.median);
  EXPECT_GE(ratio.low, 1.01);
  EXPECT_LE(ratio.high, 1.08);
}

TEST(Statistics, TheSameSeedGivesTheSameInterval) {
  const std::vector<double> a = {1, 2, 3, 4, 5}, b = {1, 1, 2, 3, 1};
  EXPECT_EQ(paired_ratio(a, b, 3).low, paired_ratio(a, b, 3).low);
  EXPECT_EQ(paired_ratio(a, b, 3).high, paired_ratio(a, b, 3).high);
}

TEST(Statistics, PairsWithoutATimeAreLeftOut) {
  EXPECT_EQ(paired_ratio({2, 9}, {1, 0}).median, 2);
  EXPECT_EQ(paired_ratio({1}, {0}).median, 0);
  EXPECT_EQ(paired_ratio({}, {}).median, 0);
}

}  // namespace
}  // namespace distwrap::bench
