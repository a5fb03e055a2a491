#include "bench/measure.h"

#include "bench/core_speed.h"
#include "bench/runner.h"
#include "fake_contestant.h"

#include <absl/strings/str_cat.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>

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

TEST(Turns, EveryOrderComesAndIsReversedInTheNextRound) {
  std::map<std::vector<size_t>, int> orders;
  for (int round = 0; round < 600; ++round) {
    std::vector<size_t> order = turns(3, round, 5);
    ++orders[order];
    if (round % 2 == 1) {
      std::reverse(order.begin(), order.end());
      EXPECT_EQ(order, turns(3, round - 1, 5));
    }
  }
  EXPECT_EQ(orders.size(), 6u);
  for (const auto& [order, times] : orders) EXPECT_GT(times, 50);
}

TEST(Turns, AreTheSameOnEveryRankAndDifferBetweenCases) {
  int differ = 0;
  for (int round = 0; round < 40; ++round) {
    EXPECT_EQ(turns(4, round, 1), turns(4, round, 1));
    if (turns(4, round, 1) != turns(4, round, 2)) ++differ;
  }
  EXPECT_GT(differ, 20);
  EXPECT_THAT(turns(1, 5, 1), ElementsAre(0));
  EXPECT_TRUE(turns(0, 5, 1).empty());
}

TEST(Batch, AClockReadingIsLittleBesideWhatItTimes) {
  constexpr double kReadingUs = 0.025;
  for (double each : {0.001, 0.01, 0.1, 0.5, 1.0, 2.0, 2.49}) {
    EXPECT_LE(kReadingUs / (static_cast<double>(batch_of(each)) * each), 0.01)
        << each;
  }
  EXPECT_EQ(batch_of(2.5), 1);
  EXPECT_EQ(batch_of(1000), 1);
  EXPECT_LE(batch_of(0), 5000);
  // Batches of ranks that share cores.
  const double shared = Plan::least_timed_us(true);
  for (double each : {0.1, 2.5, 10.0, 49.0})
    EXPECT_GE(static_cast<double>(batch_of(each, shared)) * each, shared);
  EXPECT_EQ(batch_of(50, shared), 1);
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
  // Each rank has one wrong element in either check.
  auto rows = measured(Operation::kAllReduce, {bad}, short_plan());
  ASSERT_TRUE(rows.ok()) << rows.status();
  EXPECT_EQ(rows->at(0).wrong, 4);
  // A single rank is checked as well.
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

TEST(Measure, AChangedInputIsWrong) {
  Behaviour vandal{"vandal"};
  vandal.changes_input = true;
  const auto rows = measured(Operation::kAllReduce, {vandal}, short_plan(), 0);
  ASSERT_TRUE(rows.ok()) << rows.status();
  EXPECT_EQ(rows->at(0).wrong, 2);  // one element, noticed by two checks
}

TEST(Measure, RoundsEndWhenTheTimeIsUp) {
  Plan plan;
  plan.seconds = 0.001;
  plan.precision = 1e-9;
  Behaviour slow{"slow"};
  slow.takes_ns = 200'000;  // five of these fill a block, so the time is over
                            // at once
  const auto rows = measured(Operation::kAllReduce, {slow}, plan);
  ASSERT_TRUE(rows.ok()) << rows.status();
  EXPECT_EQ(rows->at(0).round_p50_us.size(),
            static_cast<size_t>(plan.least_rounds()));
}

TEST(Measure, RoundsEndWhenThePrecisionIsReached) {
  Plan plan;
  plan.seconds = 0.05;
  plan.precision = 100;  // reached at once
  plan.warmup = 1;
  Behaviour slow{"slow"};
  slow.takes_ns = 100'000;
  const auto rows = measured(Operation::kAllReduce, {slow}, plan);
  ASSERT_TRUE(rows.ok()) << rows.status();
  EXPECT_EQ(rows->at(0).round_p50_us.size(),
            static_cast<size_t>(plan.least_rounds()));
  EXPECT_LE(rows->at(0).p50_interval.low, rows->at(0).p50_interval.high);
}

TEST(Measure, CountedIterationsHaveAFixedNumberOfRounds) {
  Plan plan;
  EXPECT_LT(plan.least_rounds(), plan.most_rounds());
  plan.iterations = 2;
  plan.warmup = 0;
  EXPECT_EQ(plan.most_rounds(), plan.least_rounds());
  const auto rows = measured(Operation::kAllReduce, {Behaviour{}}, plan);
  ASSERT_TRUE(rows.ok()) << rows.status();
  EXPECT_EQ(rows->at(0).round_p50_us.size(),
            static_cast<size_t>(plan.most_rounds()));
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
  // Some 20 ns a call, a few hundred under a sanitizer.
  EXPECT_GT(rows->at(0).batch, 1);
  EXPECT_LT(rows->at(0).min_us, 1);
  EXPECT_GE(fake.calls(), rows->at(0).iterations * rows->at(0).batch);
}

// A call in another process: it times itself, and its result must be fetched.
class Elsewhere final : public Contestant {
 public:
  class Remote final : public TimedCall {
   public:
    Remote(Elsewhere& home, Case& c) : home_(home), case_(c) {}
    absl::Status repeat(int64_t) override { return absl::OkStatus(); }
    absl::Status timed(const Loop& loop, absl::Span<int64_t> ns) override {
      for (int64_t& took : ns) took = 7000 * loop.batch;
      return absl::OkStatus();
    }
    absl::Status spoil() override {
      ++home_.spoiled;
      return absl::OkStatus();
    }
    absl::Status fetch() override {
      ++home_.fetched;
      if (!home_.status.ok()) return home_.status;
      // One rank's sum equals its input.
      const auto* in = static_cast<const float*>(case_.in().data());
      std::copy_n(in, case_.in().count(),
                  static_cast<float*>(case_.out().data()));
      return absl::OkStatus();
    }

   private:
    Elsewhere& home_;
    Case& case_;
  };

  std::string name() const override { return "elsewhere"; }
  absl::StatusOr<std::unique_ptr<TimedCall>> prepare(Case& c) override {
    return std::make_unique<Remote>(*this, c);
  }
  int spoiled = 0, fetched = 0;
  absl::Status status = absl::OkStatus();
};

// The ranks' slowdowns, read before a block and after it; 1 once they are used
// up.
std::vector<Row> measured_slowed(std::vector<std::vector<double>> slowdowns) {
  std::vector<Row> result;
  run_ranks(2, [&](int rank, std::shared_ptr<Store> store) {
    Spec spec;
    spec.rank = rank;
    spec.ranks = 2;
    spec.bytes = 400;
    auto c = Case::make(spec);
    ASSERT_TRUE(c.ok());
    SideChannel side(store, "side", rank, 2, absl::Seconds(60));
    Behaviour one_at_a_time;
    one_at_a_time.takes_ns = 10'000;
    FakeContestant fake(one_at_a_time,
                        std::make_unique<SideChannel>(store, "fake", rank, 2,
                                                      absl::Seconds(60)));
    Plan plan = short_plan();
    size_t asked = 0;
    const std::vector<double>& own = slowdowns[static_cast<size_t>(rank)];
    plan.slowdown = [&] { return asked < own.size() ? own[asked++] : 1; };
    auto rows = measure(*c, {&fake}, 0, side, plan);
    ASSERT_TRUE(rows.ok()) << rows.status();
    EXPECT_EQ(fake.calls(), 2 + 4 * (3 + rows->at(0).repeated));
    if (rank == 0) result = *std::move(rows);
  });
  return result;
}

TEST(Measure, ABlockDuringWhichACoreWasSlowIsMeasuredAgain) {
  // Rank 1's before the first block, rank 0's after the second one.
  const auto rows =
      measured_slowed({{1, 1, 1, 1.4}, {1.3, 1.1, 1, 1, 1.05, 1}});
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].repeated, 2);
  EXPECT_EQ(rows[0].disturbed, 0);
  EXPECT_EQ(rows[0].round_p50_us.size(), 3u);
  EXPECT_EQ(rows[0].iterations, 12);
  EXPECT_EQ(rows[0].wrong, 0);
}

TEST(Measure, ACoreThatStaysSlowIsMeasuredAsItIs) {
  const std::vector<double> slow(100, 2);
  const auto rows = measured_slowed({slow, slow});
  ASSERT_EQ(rows.size(), 1u);
  // At most as many repetitions as there are rounds.
  EXPECT_EQ(rows[0].repeated, 3);
  EXPECT_EQ(rows[0].disturbed, 3);
  EXPECT_EQ(rows[0].iterations, 12);
}

TEST(CoreSpeed, IsToldBesideItsBest) {
  CoreSpeed speed;
  EXPECT_EQ(speed.slowdown(), 1);
  for (int i = 0; i < 10; ++i) EXPECT_GE(speed.slowdown(), 1);
}

TEST(Measure, CallsElsewhereTimeThemselvesAndAreFetched) {
  Spec spec;
  spec.bytes = 400;
  auto c = Case::make(spec);
  ASSERT_TRUE(c.ok());
  SideChannel side(nullptr, "side", 0, 1, absl::Seconds(1));
  Elsewhere elsewhere;
  const auto rows = measure(*c, {&elsewhere}, 0, side, short_plan());
  ASSERT_TRUE(rows.ok()) << rows.status();
  EXPECT_EQ(rows->at(0).wrong, 0);
  EXPECT_DOUBLE_EQ(rows->at(0).min_us, 7);
  EXPECT_DOUBLE_EQ(rows->at(0).max_us, 7);
  EXPECT_DOUBLE_EQ(rows->at(0).first_us, 7);
  EXPECT_EQ(elsewhere.fetched, 2);  // the first call and the last block
  EXPECT_EQ(elsewhere.spoiled, 1);
  elsewhere.status = absl::UnavailableError("it ended");
  EXPECT_THAT(
      std::string(
          measure(*c, {&elsewhere}, 0, side, short_plan()).status().message()),
      HasSubstr("elsewhere, all_reduce of 400 bytes, rank 0: it ended"));
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
