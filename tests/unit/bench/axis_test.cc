#include "bench/axis.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace distwrap::bench {
namespace {

using testing::ElementsAre;

std::vector<std::string> labels(const LogAxis& axis) {
  std::vector<std::string> all;
  for (const Tick& tick : axis.ticks()) {
    if (!tick.label.empty()) all.push_back(tick.label);
  }
  return all;
}

TEST(Axis, BytesArePowersOfTwo) {
  EXPECT_THAT(labels(byte_axis(8, 16 << 20)),
              ElementsAre("8 B", "64 B", "512 B", "4 KiB", "32 KiB", "256 KiB",
                          "2 MiB", "16 MiB"));
  EXPECT_THAT(labels(byte_axis(8, 8)), ElementsAre("8 B", "16 B"));
  EXPECT_LE(labels(byte_axis(1, 1e12)).size(), 9u);
}

TEST(Axis, TimesHaveUnits) {
  EXPECT_THAT(labels(time_axis(30, 15000)),
              ElementsAre("100 \u00b5s", "1 ms", "10 ms"));
  EXPECT_THAT(labels(time_axis(0.05, 0.06)),
              ElementsAre("20 ns", "50 ns", "100 ns"));
}

TEST(Axis, RatesHaveUnits) {
  EXPECT_THAT(
      labels(rate_axis(0.0001, 2)),
      ElementsAre("100 kB/s", "1 MB/s", "10 MB/s", "100 MB/s", "1 GB/s"));
}

TEST(Axis, EverythingLiesInside) {
  for (double low = 1e-4; low < 1e6; low *= 1.7) {
    for (double span : {1.0, 1.3, 2.0, 50.0, 1e6}) {
      for (const LogAxis& axis :
           {time_axis(low, low * span), rate_axis(low, low * span)}) {
        EXPECT_GT(axis.place(low), 0) << low << " " << span;
        EXPECT_LT(axis.place(low * span), 1) << low << " " << span;
        EXPECT_GE(labels(axis).size(), 1u) << low << " " << span;
        EXPECT_LE(labels(axis).size(), 12u) << low << " " << span;
      }
    }
  }
}

TEST(Axis, PlacesAreLogarithmic) {
  const LogAxis axis = byte_axis(16, 4096);
  EXPECT_DOUBLE_EQ(axis.place(16), 0);
  EXPECT_DOUBLE_EQ(axis.place(256), 0.5);
  EXPECT_DOUBLE_EQ(axis.place(4096), 1);
}

}  // namespace
}  // namespace distwrap::bench
