// The lives of plans and pending calls: many at a time, in any order, dropped
// early, and in the memory of earlier ones.
#include "ranks/moe_ranks.h"

#include <absl/time/clock.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <numeric>
#include <thread>

namespace distwrap::testing {
namespace {

size_t at(int64_t i) { return static_cast<size_t>(i); }

using Ints = std::vector<int32_t>;
using Longs = std::vector<int64_t>;

// A routing that is known to all ranks, from a seed.
Routed<int32_t> routing(uint64_t seed, int ranks) {
  Routed<int32_t> routed{2, {}};
  std::mt19937_64 random(seed);
  std::uniform_int_distribution<int32_t> id(-1, 2 * ranks - 1);
  for (int r = 0; r < ranks; ++r) {
    routed.ids.emplace_back();
    for (int i = 0; i < 14; ++i) routed.ids.back().push_back(id(random));
  }
  return routed;
}

Ints tokens(int me, int32_t of) {
  Ints x(7);
  std::iota(x.begin(), x.end(), 1000 * of + 100 * me);
  return x;
}

// The rows that a plan's layout gives rank `me`, by the tokens' values.
void expect_rows(const MoePlan& plan, const Ints& got, int32_t of) {
  const Ints ranks = values_of<int32_t>(plan.src_rank());
  const Ints from = values_of<int32_t>(plan.src_token());
  for (size_t i = 0; i < got.size(); ++i) {
    if (ranks[i] < 0) continue;
    ASSERT_EQ(got[i], 1000 * of + 100 * ranks[i] + from[i]);
  }
}

TEST(MoeLives, FourPlansBackwardsInEveryOrder) {
  run_bound(4, [](int me) {
    std::vector<int> order = {0, 1, 2, 3};
    do {
      std::vector<MoePlan> plans;
      std::vector<Ints> rows;
      for (const int p : {0, 1, 2, 3}) {
        plans.push_back(
            good(routing(at(p), 4).plan(me, {.num_experts = 8,
                                             .dedup = kLevels[p % 3],
                                             .node_of = kTwoByTwo})));
        ASSERT_TRUE(plans.back());
        rows.emplace_back(at(plans.back().recv_rows()));
        const Ints x = tokens(me, p);
        finish(
            moe_dispatch(plans.back(), TensorView(x), TensorView(rows.back())));
      }
      for (const int p : order) {
        const MoePlan& plan = plans[at(p)];
        expect_rows(plan, rows[at(p)], p);
        Ints out(7);
        finish(moe_combine(plan, TensorView(rows[at(p)]), TensorView(out)));
        const Ints x = tokens(me, p);
        const Ints sent = [&] {
          Ints ranks(7, 0);
          const std::vector<uint8_t> to =
              values_of<uint8_t>(plan.token_in_rank());
          for (size_t i = 0; i < to.size(); ++i) ranks[i / 4] += to[i];
          return ranks;
        }();
        for (size_t t = 0; t < 7; ++t) ASSERT_EQ(out[t], sent[t] * x[t]);
      }
    } while (std::next_permutation(order.begin(), order.end()));
  });
}

TEST(MoeLives, PendingCallsAreLimitedAndKeepTheirResults) {
  run_bound(4, [](int me) {
    for (const MoeDedup level : kLevels) {
      const MoePlan plan = good(routing(7, 4).plan(
          me, {.num_experts = 8, .dedup = level, .node_of = kTwoByTwo}));
      ASSERT_TRUE(plan);
      std::vector<Ints> x, rows;
      for (int32_t i = 0; i < 3; ++i) {
        x.push_back(tokens(me, i));
        rows.emplace_back(at(plan.recv_rows()), -7);
      }
      const auto start = [&](size_t i) {
        return moe_dispatch_start(plan, TensorView(x[i]), TensorView(rows[i]));
      };
      absl::StatusOr<MoePending> first = start(0), second = start(1);
      ASSERT_TRUE(first.ok() && second.ok()) << first.status();
      expect_reason(start(2).status(), Reason::kResourceLimit,
                    "as many unfinished calls as it may");
      finish(first->finish());
      expect_rows(plan, rows[0], 0);
      expect_reason(first->finish().status(), Reason::kAlreadySubmitted);
      absl::StatusOr<MoePending> third = start(2);
      ASSERT_TRUE(third.ok()) << third.status();
      finish(second->finish());
      expect_rows(plan, rows[0], 0);
      expect_rows(plan, rows[1], 1);
      // A pending call that is dropped ends in its destructor.
      { const MoePending dropped = *std::move(third); }
      expect_rows(plan, rows[2], 2);
      Ints out(7), direct(7);
      absl::StatusOr<MoePending> combine =
          moe_combine_start(plan, TensorView(rows[2]), TensorView(out));
      ASSERT_TRUE(combine.ok());
      finish(combine->finish());
      finish(moe_combine(plan, TensorView(rows[2]), TensorView(direct)));
      EXPECT_EQ(out, direct);
      ASSERT_TRUE(plan.prepare(4, 3).ok());
    }
    MoePending none;
    expect_reason(none.finish().status(), Reason::kInvalidArgument);
  });
}

// A call keeps its plan, also when other collectives come between its steps.
TEST(MoeLives, APlanIsDroppedRightAfterTheCall) {
  run_bound(4, [](int me) {
    for (const MoeDedup level : kLevels)
      for (int repeat = 0; repeat < 3; ++repeat) {
        MoePlan plan = good(routing(at(repeat), 4)
                                .plan(me, {.num_experts = 8,
                                           .dedup = level,
                                           .node_of = kTwoByTwo}));
        ASSERT_TRUE(plan);
        const MoePlan kept = plan;
        const Ints x = tokens(me, 5);
        Ints rows(at(plan.recv_rows()), -7);
        absl::StatusOr<Work> work = moe_dispatch(
            plan, TensorView(x), TensorView(rows), {}, {.async = true});
        plan = MoePlan();
        ASSERT_TRUE(work.ok()) << work.status();
        Floats sum = {1};
        finish(all_reduce(TensorView(sum)));
        EXPECT_EQ(sum[0], 4);
        const absl::Status ended = work->wait();
        ASSERT_TRUE(ended.ok()) << ended;
        expect_rows(kept, rows, 5);
      }
  });
}

TEST(MoeLives, PlansInTheMemoryOfEarlierOnes) {
  run_bound(2, [](int me) {
    MoePlan plan;
    for (uint64_t i = 0; i < 100; ++i) {
      const moe::PlanState* const before = plan.state().get();
      plan = good(routing(i, 2).plan(
          me, {.num_experts = 4, .layout = MoeLayout::kExpertMajor}));
      ASSERT_TRUE(plan);
      const int64_t shape[] = {7, 2};
      Routed<int32_t> again = routing(i + 1000, 2);
      const absl::StatusOr<MoePlan> next =
          moe_plan(TensorView(again.ids[at(me)].data(), shape),
                   {.num_experts = 4, .layout = MoeLayout::kExpertMajor}, {},
                   std::move(plan));
      plan = good(next);
      ASSERT_TRUE(plan);
      EXPECT_NE(plan.state().get(), before);
      const Ints x = tokens(me, 3);
      Ints rows(at(plan.recv_rows()), -7);
      finish(moe_dispatch(plan, TensorView(x), TensorView(rows)));
      expect_rows(plan, rows, 3);
    }
  });
}

// No tokens at all, all tokens to one expert, no tokens on some ranks.
TEST(MoeLives, EmptyAndOneSidedRoutings) {
  run_bound(3, [](int me) {
    const std::vector<int32_t> nodes = {0, 1, 1};
    const std::vector<Routed<int32_t>> all = {{2, {{}, {}, {}}},
                                              {2, {{-1, -1}, {-1, -1}, {}}},
                                              {2, {{5, 5, 5, -1}, {5, -1}, {}}},
                                              {2, {{0, 1}, {2, 3}, {4, 5}}},
                                              {2, {{2, 4}, {0, 4}, {0, 2}}}};
    for (Routed<int32_t> routed : all)
      for (const MoeDedup level : kLevels) {
        const MoePlan plan = good(routed.plan(
            me, {.num_experts = 6, .dedup = level, .node_of = nodes}));
        ASSERT_TRUE(plan);
        const int64_t t = routed.tokens(me), m = plan.recv_rows();
        Ints x(at(t), 3), rows(at(m)), out(at(t), -7);
        finish(moe_dispatch(plan, TensorView(x), TensorView(rows)));
        EXPECT_EQ(rows, Ints(at(m), 3));
        finish(moe_combine(plan, TensorView(rows), TensorView(out)));
        const std::vector<uint8_t> to =
            values_of<uint8_t>(plan.token_in_rank());
        for (size_t i = 0; i < out.size(); ++i)
          EXPECT_EQ(out[i], 3 * (to[3 * i] + to[3 * i + 1] + to[3 * i + 2]));
      }
  });
}

// A map of bool plans what ids plan.
TEST(MoeLives, AMapPlansAsIdsDo) {
  run_bound(2, [](int me) {
    const Routed<int32_t> ids{2, {{0, 3, 2, 1}, {3, -1, 1, 0}}};
    std::vector<uint8_t> map(8, 0);
    for (size_t i = 0; i < 4; ++i)
      if (ids.ids[at(me)][i] >= 0) map[i / 2 * 4 + at(ids.ids[at(me)][i])] = 1;
    const int64_t shape[] = {2, 4};
    const MoeOptions options{.num_experts = 4,
                             .layout = MoeLayout::kExpertMajor};
    const MoePlan by_map =
        good(moe_plan(TensorView(map.data(), shape, DType::kBool), options));
    Routed<int32_t> copy = ids;
    const MoePlan by_ids = good(copy.plan(me, options));
    ASSERT_TRUE(by_map && by_ids);
    EXPECT_EQ(by_map.slots(), 4);
    EXPECT_EQ(values_of<int32_t>(by_map.src_token()),
              values_of<int32_t>(by_ids.src_token()));
    EXPECT_EQ(values_of<int32_t>(by_map.src_rank()),
              values_of<int32_t>(by_ids.src_rank()));
    EXPECT_EQ(values_of<uint8_t>(by_map.kept()), map);
    // Ids come back in the type in which they came.
    Routed<int64_t> wide{1, {{0}, {3}}};
    EXPECT_EQ(good(wide.plan(me, {.num_experts = 4})).recv_topk_idx().dtype(),
              DType::kI64);
  });
}

// A repeated expert is served by its first slot, a dropped pair by none.
TEST(MoeLives, EachSlotKnowsTheSlotThatServesIt) {
  run_bound(2, [](int me) {
    Routed<int32_t> routed{3, {{2, 2, -1, 0, 1, 0}, {3, 3, 3, 0, 0, 1}}};
    MoePlan plan = good(routed.plan(me, {.num_experts = 4}));
    EXPECT_EQ(values_of<int32_t>(plan.serving_slots()),
              me == 0 ? (std::vector<int32_t>{0, 0, -1, 0, 1, 0})
                      : (std::vector<int32_t>{0, 0, 0, 0, 0, 2}));
    EXPECT_EQ(plan.serving_slots().extent(1), 3);
    const int64_t shape[] = {2, 3};
    const MoeOptions one_each{.num_experts = 4,
                              .overflow = MoeOverflow::kCapacityDrop,
                              .expert_capacity = 1};
    const MoePlan less =
        good(moe_plan(TensorView(routed.ids[at(me)].data(), shape), one_each,
                      {}, std::move(plan)));
    EXPECT_EQ(values_of<int32_t>(less.serving_slots()),
              me == 0 ? (std::vector<int32_t>{0, 0, -1, 0, 1, 0})
                      : (std::vector<int32_t>{0, 0, 0, -1, -1, -1}));
  });
}

// Masked ranks do not call; what they would get is dropped.
TEST(MoeLives, MaskedRanksAreNotContacted) {
  run_bound(4, [](int me) {
    const std::vector<int> masked = {2};
    for (const bool validate : {false, true}) {
      if (me == 2) continue;
      Routed<int32_t> routed{2, {{0, 2, 3, 1}, {2, 3, 2, 0}, {}, {1, 2}}};
      const MoePlan plan = good(routed.plan(
          me,
          {.num_experts = 4, .masked_ranks = masked, .validate = validate}));
      ASSERT_TRUE(plan);
      EXPECT_EQ(values_of<int64_t>(plan.dropped_per_expert()),
                (std::vector<int64_t>{0, 0, 4, 0}));
      const int64_t t = routed.tokens(me);
      Ints x(at(t)), rows(at(plan.recv_rows())), out(at(t));
      std::iota(x.begin(), x.end(), 10 * me + 1);
      finish(moe_dispatch(plan, TensorView(x), TensorView(rows)));
      finish(moe_combine(plan, TensorView(rows), TensorView(out)));
      const std::vector<Ints> sums = {{1, 4}, {11, 12}, {}, {31}};
      EXPECT_EQ(out, sums[at(me)]);
    }
    finish(barrier());
  });
}

// All ranks take one level: on one node the ranks', otherwise by the model.
TEST(MoeLives, TheLevelIsChosenByAllAlike) {
  run_bound(4, [](int me) {
    Routed<int32_t> routed{4, {{}, {}, {}, {}}};
    for (int r = 0; r < 4; ++r)
      for (int i = 0; i < 4000; ++i)
        routed.ids[at(r)].push_back((i * 5 + r) % 8);
    MoePlan plan = good(routed.plan(me, {.num_experts = 8}));
    ASSERT_TRUE(plan);
    EXPECT_EQ(plan.dedup(), MoeDedup::kRank);
    // Each token wants both ranks of the other node: one copy crosses for two.
    plan = good(routed.plan(me, {.num_experts = 8, .node_of = kTwoByTwo}));
    ASSERT_TRUE(plan);
    EXPECT_EQ(plan.dedup(), MoeDedup::kNode);
    EXPECT_EQ(plan.traffic().naive_inter_rows, 2 * plan.traffic().inter_rows);
  });
}

// Rank 2 comes first, then rank 0, then rank 1, some time later.
TEST(MoeLives, WaitsNameTheRankThatCameLate) {
  constexpr int64_t kLateNs = 2'000'000;
  std::array<MoePlan, 3> plans;
  // Counts the plans that are there: ThreadSanitizer does not see a barrier of
  // the library.
  std::atomic<int> known = 0;
  // Whether a rank has come to its call: its rows were counted.
  const auto wait_for = [&](int rank) {
    while (plans[at(rank)].traffic().bytes_intra == 0)
      std::this_thread::yield();
  };
  run_bound(3, [&](int me) {
    Routed<int32_t> routed{2, {{1, 2}, {0, 2}, {0, 1}}};
    const MoePlan plan = good(routed.plan(me, {.num_experts = 3}));
    ASSERT_TRUE(plan);
    EXPECT_EQ(values_of<int64_t>(plan.recv_rows_tensor()), (Longs{2}));
    EXPECT_EQ(plan.traffic().wait_ns, (Longs{0, 0, 0}));
    plans[at(me)] = plan;
    ++known;
    while (known % 3 != 0) std::this_thread::yield();
    Ints x(1, me), rows(2), out(1);
    if (me == 0) wait_for(2);
    if (me == 1) {
      wait_for(0);
      absl::SleepFor(absl::Nanoseconds(kLateNs));
    }
    finish(moe_dispatch(plan, TensorView(x), TensorView(rows)));
    const Longs waits = plan.traffic().wait_ns;
    if (me == 0) {
      EXPECT_GE(waits[1], kLateNs);
      EXPECT_EQ(waits[2], 0);
    } else if (me == 1) {
      EXPECT_EQ(waits, (Longs{0, 0, 0}));
    } else {
      EXPECT_GT(waits[0], 0);
      EXPECT_GT(waits[1], waits[0]);
    }
    EXPECT_EQ(waits[at(me)], 0);
    finish(barrier());
    // In two phases a rank waits from `finish` on.
    absl::StatusOr<MoePending> combine =
        moe_combine_start(plan, TensorView(rows), TensorView(out));
    ASSERT_TRUE(combine.ok()) << combine.status();
    finish(barrier());
    finish(combine->finish());
    EXPECT_EQ(plan.traffic().wait_ns, waits);
    plans[at(me)] = {};
  });
}

// The errors of calls that nobody waits for are told once.
TEST(MoeLives, AnErrorThatNobodyWaitedForIsKept) {
  for (const bool dropped : {false, true})
    run_ranks(2, {.backend = "shm", .timeout = absl::Seconds(20)},
              [&](Session& session) {
                bind_session(session);
                const int me = session.rank();
                Routed<int32_t> routed{1, {{1}, {0}}};
                const MoePlan plan = good(routed.plan(me, {.num_experts = 2}));
                ASSERT_TRUE(plan);
                EXPECT_TRUE(plan.check().ok());
                if (me == 0) {  // rank 1 does not call
                  Ints x(1), rows(1);
                  const OpOptions soon{.timeout = absl::Milliseconds(50)};
                  if (dropped) {
                    const absl::StatusOr<MoePending> pending =
                        moe_dispatch_start(plan, TensorView(x),
                                           TensorView(rows), {}, soon);
                    ASSERT_TRUE(pending.ok()) << pending.status();
                  } else {
                    OpOptions async = soon;
                    async.async = true;
                    const absl::StatusOr<Work> work = moe_dispatch(
                        plan, TensorView(x), TensorView(rows), {}, async);
                    ASSERT_TRUE(work.ok()) << work.status();
                    EXPECT_FALSE(work->wait().ok());
                  }
                  expect_reason(plan.check(), Reason::kTimedOut, "");
                }
                EXPECT_TRUE(plan.check().ok());
                bind_session({});
              });
}

// Hooks see one call, not its steps.
TEST(MoeLives, AHookSeesOneCall) {
  run_bound(2, [](int me) {
    std::vector<std::string> seen;
    absl::StatusOr<Hook> hook =
        add_hook({}, {.pre = [&](const HookedCall& call) {
                   seen.emplace_back(call.op);
                   return absl::OkStatus();
                 }});
    ASSERT_TRUE(hook.ok()) << hook.status();
    Routed<int32_t> routed{1, {{1}, {0}}};
    const MoePlan plan = good(routed.plan(me, {.num_experts = 2}));
    ASSERT_TRUE(plan);
    Ints x(1, me), rows(1), out(1);
    finish(moe_dispatch(plan, TensorView(x), TensorView(rows)));
    finish(moe_combine(plan, TensorView(rows), TensorView(out)));
    EXPECT_EQ(out, x);
    EXPECT_EQ(seen, (std::vector<std::string>{"moe_plan", "moe_dispatch",
                                              "moe_combine"}));
  });
}

}  // namespace
}  // namespace distwrap::testing
