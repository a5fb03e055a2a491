#include "bench/measure.h"

#include "fake_contestant.h"

#include <absl/strings/str_cat.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

namespace distwrap::bench {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Le;

Plan short_plan() {
  Plan plan;
  plan.rounds = 3;
  plan.iterations = 4;
  plan.warmup = 1;
  return plan;
}

// Rows of rank 0 for `op` of 400 bytes by contestants of this behaviour, on two
// ranks; `only_on` >= 0: the behaviour of that rank alone, the other is good.
absl::StatusOr<std::vector<Row>> measured(Operation op,
                                          std::vector<Behaviour> behaviours,
                                          const Plan& plan, int only_on = -1) {
  absl::StatusOr<std::vector<Row>> result = absl::UnknownError("no rank 0");
  run_ranks(2, [&](int rank, std::shared_ptr<Store> store) {
    Spec spec;
    spec.op = op;
    spec.rank = rank;
    spec.ranks = 2;
    spec.bytes = op == Operation::kBarrier ? 0 : 400;
    auto c = Case::make(spec);
    ASSERT_TRUE(c.ok());
    SideChannel side(store, "side", rank, 2, absl::Seconds(60));
    std::vector<std::unique_ptr<FakeContestant>> fakes;
    std::vector<Contestant*> contestants;
    for (size_t i = 0; i < behaviours.size(); ++i) {
      Behaviour own = behaviours[i];
      if (only_on >= 0 && rank != only_on) own = Behaviour{own.name};
      fakes.push_back(std::make_unique<FakeContestant>(
          own, std::make_unique<SideChannel>(store, absl::StrCat("fake", i),
                                             rank, 2, absl::Seconds(60))));
      contestants.push_back(fakes.back().get());
    }
    auto rows = measure(*c, contestants, contestants.size() - 1, side, plan);
    if (rank == 0) result = std::move(rows);
  });
  return result;
}

TEST(Turns, AllOrdersComeEquallyOften) {
  EXPECT_THAT(turns(2, 0), ElementsAre(0, 1));
  EXPECT_THAT(turns(2, 1), ElementsAre(1, 0));
  EXPECT_THAT(turns(2, 2), ElementsAre(1, 0));
  EXPECT_THAT(turns(2, 3), ElementsAre(0, 1));
  std::map<std::vector<size_t>, int> orders;
  for (int round = 0; round < 6; ++round) ++orders[turns(3, round)];
  EXPECT_EQ(orders.size(), 6u);
  EXPECT_THAT(turns(1, 5), ElementsAre(0));
}

TEST(Measure, EveryOperationIsCheckedAndTimed) {
  for (Operation op : all_operations()) {
    const auto rows = measured(op, {Behaviour{}}, short_plan());
    ASSERT_TRUE(rows.ok()) << rows.status();
    const Row& row = rows->at(0);
    EXPECT_TRUE(row.measured);
    EXPECT_EQ(row.wrong, 0) << operation_name(op);
    EXPECT_EQ(row.iterations, 12);
    EXPECT_EQ(row.round_p50_us.size(), 3u);
    EXPECT_THAT(row.min_us, Le(row.p50_us));
    EXPECT_THAT(row.p50_us, Le(row.p99_us));
    EXPECT_THAT(row.p99_us, Le(row.max_us));
    EXPECT_GT(row.p50_us, 0);
    EXPECT_FALSE(row.ratio.has_value());
  }
}

TEST(Measure, TheWrongElementOfTheFirstCallIsCounted) {
  Behaviour bad{"bad"};
  bad.corrupt_from_call = 1;
  // Each rank has one wrong element in both checks.
  auto rows = measured(Operation::kAllReduce, {bad}, short_plan());
  ASSERT_TRUE(rows.ok()) << rows.status();
  EXPECT_EQ(rows->at(0).wrong, 4);
  // And on one rank alone.
  rows = measured(Operation::kAllReduce, {bad}, short_plan(), 1);
  ASSERT_TRUE(rows.ok()) << rows.status();
  EXPECT_EQ(rows->at(0).wrong, 2);
}

TEST(Measure, TheWrongElementOfTheLastIterationIsCounted) {
  Behaviour bad{"bad"};
  bad.corrupt_from_call = 1 + 1 + 1;  // after first call and warm-up
  Plan plan = short_plan();
  plan.rounds = 1;
  plan.iterations = 2;
  const auto rows = measured(Operation::kAllReduce, {bad}, plan, 0);
  ASSERT_TRUE(rows.ok()) << rows.status();
  EXPECT_EQ(rows->at(0).wrong, 1);
}

TEST(Measure, WithoutChecksNothingIsWrong) {
  Behaviour bad{"bad"};
  bad.corrupt_from_call = 1;
  Plan plan = short_plan();
  plan.check = false;
  const auto rows = measured(Operation::kAllReduce, {bad}, plan);
  ASSERT_TRUE(rows.ok()) << rows.status();
  EXPECT_EQ(rows->at(0).wrong, 0);
}

TEST(Measure, ABarrierThatDoesNotWaitIsWrong) {
  Behaviour hasty{"hasty"};
  hasty.waits_in_barrier = false;
  const auto rows = measured(Operation::kBarrier, {hasty}, short_plan());
  ASSERT_TRUE(rows.ok()) << rows.status();
  EXPECT_EQ(rows->at(0).wrong, 1);
}

TEST(Measure, ContestantsAreHeldAgainstTheBaseline) {
  const auto rows = measured(Operation::kAllReduce,
                             {Behaviour{"a"}, Behaviour{"b"}}, short_plan());
  ASSERT_TRUE(rows.ok()) << rows.status();
  ASSERT_TRUE(rows->at(0).ratio.has_value());
  EXPECT_FALSE(rows->at(1).ratio.has_value());
  EXPECT_LE(rows->at(0).ratio->low, rows->at(0).ratio->median);
}

TEST(Measure, WhoLacksTheOperationIsLeftOut) {
  Behaviour lacks{"lacks"}, refuses{"refuses"};
  lacks.has_operation = false;
  refuses.status = absl::UnimplementedError("not here");
  const auto rows = measured(Operation::kAllReduce,
                             {lacks, refuses, Behaviour{"has"}}, short_plan());
  ASSERT_TRUE(rows.ok()) << rows.status();
  EXPECT_FALSE(rows->at(0).measured);
  EXPECT_FALSE(rows->at(1).measured);
  EXPECT_TRUE(rows->at(2).measured);
}

TEST(Measure, AFailingCallNamesContestantOperationAndRank) {
  Behaviour fails{"fails"};
  fails.status = absl::UnavailableError("peer lost");
  const auto rows = measured(Operation::kAllGather, {fails}, short_plan(), 1);
  EXPECT_EQ(rows.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(rows.status().message()),
              HasSubstr("fails, all_gather of 400 bytes, rank 1: peer lost"));
}

TEST(Measure, FastCallsAreTimedSeveralAtATime) {
  Plan plan;
  plan.rounds = 1;
  plan.seconds = 0.001;
  Spec spec;
  spec.bytes = 4;
  auto c = Case::make(spec);
  SideChannel side(nullptr, "side", 0, 1, absl::Seconds(1));
  FakeContestant fake({}, nullptr);
  const auto rows = measure(*c, {&fake}, 0, side, plan);
  ASSERT_TRUE(rows.ok());
  // Some 10 ns a call, a few hundred under a sanitizer.
  EXPECT_GT(rows->at(0).batch, 1);
  EXPECT_LT(rows->at(0).min_us, 1);
  EXPECT_GE(fake.calls(), rows->at(0).iterations * rows->at(0).batch);
}

TEST(Row, Bandwidths) {
  Row row;
  row.spec.op = Operation::kAllReduce;
  row.spec.ranks = 4;
  row.spec.bytes = 3000;
  EXPECT_EQ(row.algbw(), 0);
  row.p50_us = 2;
  EXPECT_DOUBLE_EQ(row.algbw(), 1.5);
  EXPECT_DOUBLE_EQ(row.busbw(), 2.25);
}

}  // namespace
}  // namespace distwrap::bench
