#include "bench/limit.h"

#include "bench/measure.h"
#include "bench/sweep.h"
#include "fake_contestant.h"

#include <gtest/gtest.h>

#include <memory>
#include <thread>

namespace distwrap::bench {
namespace {

// Times are only compared with bounds that no machine reaches, not even a busy
// one.
TEST(Limit, LatenciesAreThoseOfTwoCores) {
  const Latency latency = measure_latency();
  if (std::thread::hardware_concurrency() < 2 || latency.hand_over_us == 0) {
    EXPECT_EQ(latency.wake_up_us, 0);
    return;
  }
  EXPECT_GT(latency.hand_over_us, 0.001);
  EXPECT_GT(latency.wake_up_us, 0);
}

TEST(Limit, IsTheSameOnEveryRankAndGrowsWithTheBytes) {
  std::vector<double> small(2), large(2), nothing(2);
  std::vector<Latency> latency(2);
  run_ranks(2, [&](int rank, std::shared_ptr<Store> store) {
    SideChannel side(store, "side", rank, 2, absl::Seconds(60));
    auto probe = LimitProbe::make(side);
    ASSERT_TRUE(probe.ok()) << probe.status();
    const auto at = static_cast<size_t>(rank);
    latency[at] = probe->latency();
    Spec spec;
    spec.rank = rank;
    spec.ranks = 2;
    spec.bytes = 1024;
    small[at] = *probe->limit_us(spec);
    spec.bytes = 16 << 20;
    large[at] = *probe->limit_us(spec);
    spec.op = Operation::kBarrier;
    spec.bytes = 0;
    nothing[at] = *probe->limit_us(spec);
  });
  EXPECT_EQ(small[0], small[1]);
  EXPECT_EQ(large[0], large[1]);
  EXPECT_GT(large[0], small[0]);
  EXPECT_EQ(nothing[0], latency[0].hand_over_us);
  EXPECT_EQ(latency[0].hand_over_us, latency[1].hand_over_us);
}

TEST(Limit, OfOneRankIsACopy) {
  SideChannel side(nullptr, "side", 0, 1, absl::Seconds(1));
  auto probe = LimitProbe::make(side);
  ASSERT_TRUE(probe.ok());
  Spec spec;
  spec.op = Operation::kBarrier;
  EXPECT_EQ(*probe->limit_us(spec), 0);
}

TEST(Limit, IsReachedByWhatTakesAsLong) {
  Row row;
  EXPECT_EQ(row.reached(), 0);
  row.p50_us = 10;
  row.limit_us = 4;
  EXPECT_DOUBLE_EQ(row.reached(), 0.4);
}

}  // namespace
}  // namespace distwrap::bench
