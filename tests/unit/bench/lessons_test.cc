// Known mistakes of measuring programs, each with the test that would detect it
// here.
#include "bench/measure.h"
#include "bench/options.h"
#include "fake_contestant.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <vector>

namespace distwrap::bench {
namespace {

using testing::Gt;
using testing::HasSubstr;

Plan short_plan() {
  Plan plan;
  plan.rounds = 2;
  plan.iterations = 20;
  plan.warmup = 1;
  return plan;
}

// The row on two ranks, each with a behaviour of its own.
Row row_of(Spec spec, const std::vector<Behaviour>& by_rank, const Plan& plan) {
  std::vector<Row> rows(by_rank.size());
  spec.ranks = static_cast<int>(by_rank.size());
  run_ranks(spec.ranks, [&](int rank, std::shared_ptr<Store> store) {
    Spec own = spec;
    own.rank = rank;
    auto c = Case::make(own);
    ASSERT_TRUE(c.ok());
    SideChannel side(store, "side", rank, spec.ranks, absl::Seconds(60));
    FakeContestant fake(
        by_rank[static_cast<size_t>(rank)],
        std::make_unique<SideChannel>(store, "fake", rank, spec.ranks,
                                      absl::Seconds(60)));
    const auto measured = measure(*c, {&fake}, 0, side, plan);
    ASSERT_TRUE(measured.ok()) << measured.status();
    rows[static_cast<size_t>(rank)] = measured->at(0);
  });
  return rows[0];
}

// P1: percentiles are of iterations, and of the slowest rank.
TEST(Lessons, P1TimesAreTheSlowestRanksAndNotTheirMean) {
  Behaviour quick, slow;
  slow.takes_ns = 3'000'000;
  Spec spec;
  spec.bytes = 64;
  const Row row = row_of(spec, {quick, slow}, short_plan());
  EXPECT_GE(row.min_us, 3000);  // rank 0 alone would say a microsecond
  EXPECT_LE(row.min_us, row.p50_us);
  EXPECT_LE(row.p50_us, row.p90_us);
  EXPECT_LE(row.p99_us, row.p999_us);
  EXPECT_LE(row.p999_us, row.max_us);
  EXPECT_THAT(row.max_us, Gt(row.min_us));
}

// P2: results are checked on every rank. (JSON and CSV: output_test.)
TEST(Lessons, P2AWrongResultOnOneRankOnlyIsCounted) {
  Behaviour good, bad;
  bad.corrupt_from_call = 1;
  Spec spec;
  spec.bytes = 64;
  EXPECT_EQ(row_of(spec, {good, bad}, short_plan()).wrong, 2);
}

// P3: an alias measures what it stands for; nothing measured is an error.
TEST(Lessons, P3AnAliasIsMeasuredAndNoIterationsAreRefused) {
  Words words;
  words.ops = {"alltoallv,sendrecv,bcast"};
  EXPECT_THAT(check(words)->ops,
              testing::ElementsAre(Operation::kAllToAllV, Operation::kRing,
                                   Operation::kBroadcast));
  words.ops = {"alltoal"};
  EXPECT_FALSE(check(words).ok());
  words.ops = {};
  words.iterations = 0;
  EXPECT_THAT(std::string(check(words).status().message()),
              HasSubstr("nothing would be measured"));
}

// P5: operations with counts, and a last size that is at most the largest.
TEST(Lessons, P5SizesAreParsedAndEndBelowTheLargest) {
  Words words;
  words.max = "64M";
  words.factor = 3;
  const std::vector<int64_t> sizes = check(words)->sizes;
  EXPECT_LE(sizes.back(), 64 << 20);
  EXPECT_GT(sizes.back(), (64 << 20) / 3);
  EXPECT_TRUE(has_counts(Operation::kAllToAllV));
}

// P6: an output that nobody writes is wrong, and so is a byte beside it.
TEST(Lessons, P6AnUntouchedOutputIsAllWrong) {
  for (Operation op : all_operations()) {
    Spec spec;
    spec.op = op;
    spec.rank = 1;
    spec.ranks = 3;
    spec.bytes = op == Operation::kBarrier ? 0 : 1200;
    const auto c = Case::make(spec);
    ASSERT_TRUE(c.ok());
    EXPECT_EQ(c->wrong(), c->out().count()) << operation_name(op);
  }
}

// P7: every root, and buffers without elements.
TEST(Lessons, P7EveryRootIsChecked) {
  for (Operation op : all_operations()) {
    if (!has_root(op)) continue;
    for (int root = 0; root < 3; ++root) {
      Spec spec;
      spec.op = op;
      spec.bytes = 120;
      spec.root = root;
      EXPECT_EQ(row_of(spec, std::vector<Behaviour>(3), short_plan()).wrong, 0)
          << operation_name(op) << " root " << root;
      // A wrong result at this root is noticed.
      Behaviour bad;
      bad.corrupt_from_call = 1;
      std::vector<Behaviour> all(3);
      const bool to_root = op == Operation::kReduce ||
                           op == Operation::kGather ||
                           op == Operation::kGatherV;
      all[static_cast<size_t>(to_root ? root : (root + 1) % 3)] = bad;
      EXPECT_GT(row_of(spec, all, short_plan()).wrong, 0)
          << operation_name(op) << " root " << root;
    }
  }
}

TEST(Lessons, P7RanksWithoutElementsAreChecked) {
  for (Operation op : all_operations()) {
    if (!has_counts(op)) continue;
    Spec spec;
    spec.op = op;
    spec.bytes = 120;
    spec.pattern = *parse_pattern("one-hot:1", 3);
    EXPECT_EQ(row_of(spec, std::vector<Behaviour>(3), short_plan()).wrong, 0)
        << operation_name(op);
  }
}

// P4 (the clock is the host's: nothing here runs on a device), P8 (every mode
// is tested: cold_test, and for checks measure_test) and P9 (an operation that
// is left out is not measured, and is reported) need no further tests.
TEST(Lessons, P9WhatIsLeftOutIsNotReportedAsMeasured) {
  Behaviour lacks;
  lacks.has_operation = false;
  Spec spec;
  spec.bytes = 64;
  const Row row = row_of(spec, {lacks, lacks}, short_plan());
  EXPECT_FALSE(row.measured);
  EXPECT_EQ(row.iterations, 0);
  EXPECT_EQ(row.p50_us, 0);
}

}  // namespace
}  // namespace distwrap::bench
