#include "bench/layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace distwrap::bench {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

Spec spec_of(Operation op, int rank, int ranks, int64_t bytes,
             const char* pattern = "linear") {
  Spec spec;
  spec.op = op;
  spec.rank = rank;
  spec.ranks = ranks;
  spec.bytes = bytes;
  spec.pattern = *parse_pattern(pattern, ranks);
  return spec;
}

TEST(Layout, OnlyTheRootHasBothBuffers) {
  for (Operation op :
       {Operation::kReduce, Operation::kGather, Operation::kGatherV}) {
    EXPECT_GT(layout_of(spec_of(op, 0, 2, 400)).out_count, 0);
    EXPECT_EQ(layout_of(spec_of(op, 1, 2, 400)).out_count, 0);
    EXPECT_GT(layout_of(spec_of(op, 1, 2, 400)).in_count, 0);
  }
  for (Operation op : {Operation::kScatter, Operation::kScatterV}) {
    EXPECT_EQ(layout_of(spec_of(op, 1, 2, 400)).in_count, 0);
    EXPECT_GT(layout_of(spec_of(op, 1, 2, 400)).out_count, 0);
  }
}

TEST(Layout, CountsFollowThePattern) {
  const Layout scatter = layout_of(spec_of(Operation::kScatterV, 1, 2, 1200));
  EXPECT_THAT(scatter.in_counts, ElementsAre(200, 100));
  EXPECT_THAT(scatter.in_starts, ElementsAre(0, 200));
  EXPECT_EQ(scatter.out_count, 100);
  const Layout gather = layout_of(spec_of(Operation::kAllGatherV, 0, 2, 1200));
  EXPECT_THAT(gather.out_counts, ElementsAre(200, 100));
  EXPECT_EQ(gather.in_count, 200);
  const Layout all = layout_of(spec_of(Operation::kAllToAllV, 1, 2, 1200));
  EXPECT_THAT(all.in_counts, ElementsAre(200, 100));
  EXPECT_THAT(all.out_counts, ElementsAre(100, 100));
  EXPECT_EQ(all.out_count, 200);
}

TEST(Layout, EqualOperationsHaveNoTraffic) {
  EXPECT_THAT(traffic_of(spec_of(Operation::kAllToAll, 0, 2, 8)), IsEmpty());
}

TEST(Layout, WhatARankGivesToItselfCrossesNoLink) {
  // All data go to rank 1 of 4, 100 elements from each rank: rank 1 keeps its
  // own and receives three parts.
  const Spec hot = spec_of(Operation::kAllToAllV, 0, 4, 400, "one-hot:1");
  EXPECT_DOUBLE_EQ(bus_bytes(hot), 1200);
  const auto traffic = traffic_of(hot);
  EXPECT_EQ(traffic[1].received, 1600);
  EXPECT_EQ(traffic[1].self, 400);
  EXPECT_EQ(traffic[0].self, 0);
  EXPECT_EQ(moved_bytes(hot), 1600);
}

TEST(Layout, UniformCountsAgreeWithTheFormula) {
  for (Operation op : {Operation::kAllToAllV, Operation::kAllGatherV,
                       Operation::kReduceScatterV, Operation::kGatherV,
                       Operation::kScatterV}) {
    EXPECT_DOUBLE_EQ(bus_bytes(spec_of(op, 0, 4, 1600, "uniform")),
                     1600 * bus_factor(op, 4))
        << operation_name(op);
  }
  EXPECT_DOUBLE_EQ(bus_bytes(spec_of(Operation::kAllReduce, 0, 4, 1600)), 2400);
}

TEST(Layout, TheLimitMovesTheLargerBuffer) {
  EXPECT_EQ(moved_bytes(spec_of(Operation::kAllGather, 1, 4, 1600)), 1600);
  EXPECT_EQ(moved_bytes(spec_of(Operation::kGather, 3, 4, 1600)), 1600);
  EXPECT_EQ(moved_bytes(spec_of(Operation::kBarrier, 0, 4, 0)), 0);
}

}  // namespace
}  // namespace distwrap::bench
