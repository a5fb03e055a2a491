// The worked vectors of a mixture-of-experts exchange, over every backend and
// at every level.
#include "ranks/moe_ranks.h"

namespace distwrap::testing {
namespace {

using Ints = std::vector<int32_t>;
using Longs = std::vector<int64_t>;
using ByRank = std::vector<Ints>;

// Calls `body(rank, level)` on four ranks for each level.
void on_four(const std::function<void(int, MoeDedup)>& body) {
  run_bound(4, [&](int me) {
    for (const MoeDedup level : kLevels) {
      SCOPED_TRACE(static_cast<int>(level));
      body(me, level);
    }
  });
}

struct Expected {
  ByRank output, ids;
};

void expect_dispatch(const MoePlan& plan, int me, const Expected& expected) {
  const auto r = static_cast<size_t>(me);
  ASSERT_EQ(plan.recv_rows(), static_cast<int64_t>(expected.output[r].size()));
  const Ints x = vector_tokens(me);
  // One row more than there are, which stays as it is.
  Ints out(expected.output[r].size() + 1, -7);
  finish(moe_dispatch(plan, TensorView(x), TensorView(out)));
  EXPECT_EQ(out.back(), -7);
  out.pop_back();
  EXPECT_EQ(out, expected.output[r]);
  if (expected.ids.empty()) return;
  Ints ids = values_of<int32_t>(plan.src_token());
  EXPECT_EQ(ids, expected.ids[r]);
}

void expect_rows(const MoePlan& plan, std::array<int64_t, 3> job) {
  const MoeTraffic mine = plan.traffic();
  Longs sum = {mine.inter_rows, mine.intra_rows, mine.local_rows};
  finish(all_reduce(TensorView(sum)));
  EXPECT_EQ(sum, Longs(job.begin(), job.end()));
}

const Expected kA = {{{1, 100, 200, 202, 301, 302},
                      {1, 2, 102, 200, 301},
                      {0, 2, 100, 101, 201, 300, 302},
                      {0, 101, 102, 201, 202, 300}},
                     {{1, 0, 0, 2, 1, 2},
                      {1, 2, 2, 0, 1},
                      {0, 2, 0, 1, 1, 0, 2},
                      {0, 1, 2, 1, 2, 0}}};

TEST(MoeVectors, ADispatchedAndCounted) {
  const std::array<int64_t, 3> rows[] = {{13, 7, 4}, {13, 7, 4}, {9, 13, 11}};
  on_four([&](int me, MoeDedup level) {
    const MoePlan plan = good(vector_a().plan(
        me, {.num_experts = 4, .dedup = level, .node_of = kTwoByTwo}));
    ASSERT_TRUE(plan);
    EXPECT_EQ(plan.dedup(), level);
    expect_dispatch(plan, me, kA);
    expect_rows(plan, rows[static_cast<int>(level) - 1]);
    EXPECT_EQ(plan.traffic().execs, 1);
  });
}

TEST(MoeVectors, ACapacityOfFourDropsTheHighest) {
  on_four([&](int me, MoeDedup level) {
    for (const MoeLayout layout :
         {MoeLayout::kRankMajor, MoeLayout::kExpertMajor}) {
      const MoePlan plan =
          good(vector_a().plan(me, {.num_experts = 4,
                                    .dedup = level,
                                    .layout = layout,
                                    .overflow = MoeOverflow::kCapacityDrop,
                                    .expert_capacity = 4,
                                    .node_of = kTwoByTwo}));
      ASSERT_TRUE(plan);
      expect_dispatch(plan, me,
                      {{{1, 100, 200, 202},
                        {1, 2, 102, 200},
                        {0, 2, 100, 101},
                        {0, 101, 102, 201}},
                       {}});
      EXPECT_EQ(values_of<int64_t>(plan.dropped_per_expert()),
                (Longs{2, 1, 3, 2}));
    }
  });
}

TEST(MoeVectors, BInBothLayouts) {
  const Expected expert_major = {{{1, 102, 202, 1, 200, 302},
                                  {2, 102, 200, 301, 101, 301},
                                  {0, 100, 300, 2, 100, 202},
                                  {0, 201, 302, 101, 201, 300}},
                                 {{1, 2, 2, 1, 0, 2},
                                  {2, 2, 0, 1, 1, 1},
                                  {0, 0, 0, 2, 0, 2},
                                  {0, 1, 2, 1, 1, 0}}};
  const Expected rank_major = {{{1, 102, 200, 202, 302},
                                {2, 101, 102, 200, 301},
                                {0, 2, 100, 202, 300},
                                {0, 101, 201, 300, 302}},
                               {}};
  const std::vector<Ints> buckets = {{0, 1, 0, -1, 1, -1, 0, -1, 1, -1},
                                     {0, -1, 1, -1, -1, 0, -1, 0, 0, 1},
                                     {0, -1, -1, 1, 0, 1, -1, 1, -1, 0},
                                     {-1, 0, -1, 1, 0, 1, 1, -1, -1, 0}};
  const std::vector<Longs> counts = {{3, 3}, {4, 2}, {3, 3}, {3, 3}};
  const std::array<int64_t, 3> rows[] = {{12, 5, 7}, {10, 4, 6}, {8, 8, 12}};
  on_four([&](int me, MoeDedup level) {
    const auto r = static_cast<size_t>(me);
    MoeOptions options{.num_experts = 8, .dedup = level, .node_of = kTwoByTwo};
    MoePlan plan = good(vector_b().plan(me, options));
    ASSERT_TRUE(plan);
    expect_dispatch(plan, me, rank_major);
    expect_rows(plan, rows[static_cast<int>(level) - 1]);
    EXPECT_EQ(values_of<int32_t>(plan.recv_topk_idx()), buckets[r]);

    options.layout = MoeLayout::kExpertMajor;
    plan = good(vector_b().plan(me, options));
    ASSERT_TRUE(plan);
    expect_dispatch(plan, me, expert_major);
    EXPECT_EQ(values_of<int64_t>(plan.expert_counts()), counts[r]);
    options.alignment = 4;
    plan = good(vector_b().plan(me, options));
    ASSERT_TRUE(plan);
    EXPECT_EQ(values_of<int64_t>(plan.expert_offsets()), (Longs{0, 4, 8}));
  });
}

// Expert e returns (e + 1) x.
void expect_combined(const Routed<int32_t>& ids, int experts,
                     const ByRank& expected, MoeLayout layout, int me,
                     MoeDedup level, bool async) {
  Routed<int32_t> routed = ids;
  const MoePlan plan = good(routed.plan(me, {.num_experts = experts,
                                             .dedup = level,
                                             .layout = layout,
                                             .node_of = kTwoByTwo}));
  ASSERT_TRUE(plan);
  OpOptions how;
  how.async = async;
  const auto rows = static_cast<size_t>(plan.recv_rows());
  const Ints x = vector_tokens(me);
  Ints y(rows);
  finish(moe_dispatch(plan, TensorView(x), TensorView(y), {}, how));
  const int per_rank = experts / 4;
  if (layout == MoeLayout::kExpertMajor) {
    const Longs offsets = values_of<int64_t>(plan.expert_offsets());
    for (int b = 0; b < per_rank; ++b)
      for (int64_t i = offsets[static_cast<size_t>(b)];
           i < offsets[static_cast<size_t>(b) + 1]; ++i)
        y[static_cast<size_t>(i)] *= me * per_rank + b + 1;
  } else {
    const Ints buckets = values_of<int32_t>(plan.recv_topk_idx());
    for (size_t i = 0; i < rows; ++i) {
      int32_t factor = 0;
      for (size_t k = 0; k < 2; ++k)
        if (buckets[2 * i + k] >= 0)
          factor += me * per_rank + buckets[2 * i + k] + 1;
      y[i] *= factor;
    }
  }
  for (const MoeOrder order : {MoeOrder::kTree, MoeOrder::kTopK})
    for (const bool reproducible : {false, true}) {
      Ints out(3, -7);
      finish(moe_combine(plan, TensorView(y), TensorView(out),
                         {.order = order, .reproducible = reproducible}, how));
      EXPECT_EQ(out, expected[static_cast<size_t>(me)]);
    }
}

TEST(MoeVectors, CombinedFromBothLayouts) {
  const ByRank a = {
      {0, 3, 10}, {400, 707, 612}, {600, 1407, 1010}, {2100, 903, 1208}};
  const ByRank b = {
      {0, 3, 18}, {1100, 1212, 408}, {1000, 3015, 1414}, {3900, 2107, 2718}};
  on_four([&](int me, MoeDedup level) {
    for (const MoeLayout layout :
         {MoeLayout::kRankMajor, MoeLayout::kExpertMajor})
      for (const bool async : {false, true}) {
        expect_combined(vector_a(), 4, a, layout, me, level, async);
        expect_combined(vector_b(), 8, b, layout, me, level, async);
      }
  });
}

}  // namespace
}  // namespace distwrap::testing
