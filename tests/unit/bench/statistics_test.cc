#include "bench/statistics.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

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

// Noise that slows the two contestants in a round does not change the ratio.
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

TEST(Statistics, DifferencesArePairedToo) {
  std::vector<double> a, b;
  for (int round = 0; round < 21; ++round) {
    b.push_back(round * 7 % 13);
    a.push_back(b.back() + 3 + round % 3);
  }
  const Difference more = paired_difference(a, b);
  EXPECT_NEAR(more.median, 4, 1e-9);
  EXPECT_GE(more.low, 3);
  EXPECT_LE(more.low, 4);
  EXPECT_GE(more.high, 4);
  EXPECT_LE(more.high, 5);
  EXPECT_LT(paired_difference(b, a).median, 0);
  EXPECT_EQ(paired_difference({}, {1}).median, 0);
}

// By its definition, without sorting: at least a `fraction` of all values lie
// below the one after it.
double by_counting(const std::vector<double>& values, double fraction) {
  double best = *std::max_element(values.begin(), values.end());
  for (double value : values) {
    const auto below = static_cast<double>(
        std::count_if(values.begin(), values.end(),
                      [&](double other) { return other <= value; }));
    if (below > fraction * static_cast<double>(values.size())) {
      best = std::min(best, value);
    }
  }
  return best;
}

TEST(Statistics, PercentilesAreThoseOfTheDefinition) {
  std::mt19937_64 random(7);
  for (size_t n :
       {size_t{1}, size_t{2}, size_t{7}, size_t{100}, size_t{1003}}) {
    std::vector<double> values;
    for (size_t i = 0; i < n; ++i) {
      values.push_back(static_cast<double>(random() % 50));
    }
    std::vector<double> sorted = values;
    std::sort(sorted.begin(), sorted.end());
    for (double fraction : {0.0, 0.25, 0.5, 0.9, 0.99, 0.999, 1.0}) {
      EXPECT_EQ(percentile(sorted, fraction), by_counting(values, fraction))
          << n << " values, " << fraction;
    }
  }
}

TEST(Statistics, TheIntervalOfAMedianGoesByOrder) {
  EXPECT_EQ(median_interval({}).high, 0);
  EXPECT_EQ(median_interval({3, 1, 2}).low, 1);  // too few: all of them
  EXPECT_EQ(median_interval({3, 1, 2}).high, 3);
  // From tables: of 6 the ends, of 20 the 6th and the 15th.
  EXPECT_EQ(median_interval({1, 2, 3, 4, 5, 6}).low, 1);
  EXPECT_EQ(median_interval({1, 2, 3, 4, 5, 6}).high, 6);
  std::vector<double> twenty;
  for (int i = 20; i > 0; --i) twenty.push_back(i);
  EXPECT_EQ(median_interval(twenty).low, 6);
  EXPECT_EQ(median_interval(twenty).high, 15);
}

TEST(Statistics, TheIntervalOfAMedianHoldsItAsOftenAsItSays) {
  std::mt19937_64 random(11);
  std::lognormal_distribution<double> draw(0, 1);  // with the median 1
  for (int n : {6, 15, 20}) {
    int inside = 0;
    for (int i = 0; i < 1000; ++i) {
      std::vector<double> values;
      for (int k = 0; k < n; ++k) values.push_back(draw(random));
      const Interval interval = median_interval(values);
      if (interval.low <= 1 && 1 <= interval.high) ++inside;
    }
    EXPECT_GE(inside, 935) << n;
  }
}

TEST(Statistics, RelativeError) {
  EXPECT_DOUBLE_EQ(relative_error({98, 102}, 100), 0.02);
  EXPECT_TRUE(std::isinf(relative_error({0, 0}, 0)));
}

// Rounds as on a shared machine: the two contestants drift together by some 10
// %, and each has 2 % of its own noise.
Ratio drifting(double factor, int rounds, std::mt19937_64& random) {
  std::normal_distribution<double> drift(0, 0.1), own(0, 0.02);
  std::vector<double> a, b;
  for (int i = 0; i < rounds; ++i) {
    const double both = std::exp(drift(random));
    a.push_back(factor * both * std::exp(own(random)));
    b.push_back(both * std::exp(own(random)));
  }
  return paired_ratio(a, b);
}

TEST(Statistics, TwentyPairsShowASlowDownOfFivePercent) {
  std::mt19937_64 random(3);
  int found = 0;
  for (int run = 0; run < 200; ++run) {
    if (drifting(1.05, 20, random).low > 1) ++found;
  }
  EXPECT_GE(found, 190);
}

TEST(Statistics, TwentyPairsOfTheSameShowNone) {
  std::mt19937_64 random(4);
  int found = 0;
  for (int run = 0; run < 200; ++run) {
    const Ratio ratio = drifting(1, 20, random);
    if (ratio.low > 1 || ratio.high < 1) ++found;
    EXPECT_GT(ratio.median, 0.95);
    EXPECT_LT(ratio.median, 1.05);
  }
  EXPECT_LE(found, 20);
}

TEST(Statistics, RunsApartAreComparedWithTheirScatter) {
  const std::vector<double> then = {10, 11, 9, 10, 10, 10.5};
  const std::vector<double> twice = {20, 21, 19, 20, 20, 22};
  const Ratio ratio = unpaired_ratio(twice, then);
  EXPECT_DOUBLE_EQ(ratio.median, 2);
  EXPECT_GT(ratio.low, 1.7);
  EXPECT_LT(ratio.high, 2.4);
  EXPECT_EQ(unpaired_ratio({}, then).median, 0);
  EXPECT_EQ(unpaired_ratio(then, {}).median, 0);
}

}  // namespace
}  // namespace distwrap::bench
