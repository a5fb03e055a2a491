#include "bench/compare.h"

#include "bench/json.h"
#include "sample_report.h"

#include <absl/strings/str_replace.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace distwrap::bench {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

// The report as it is read back from its file.
OldRun stored(const Report& report) {
  auto run = parse_document(json_document(report));
  EXPECT_TRUE(run.ok()) << run.status();
  return run.ok() ? *run : OldRun();
}

// All rows of this contestant take `factor` as long, in every round.
Report scaled(double factor) {
  Report report = sample_report();
  for (Row& row : report.rows) {
    row.p50_us *= factor;
    for (double& p50 : row.round_p50_us) p50 *= factor;
  }
  return report;
}

std::string misfit(const Report& then, const Report& now) {
  return std::string(comparable(stored(then), now).message());
}

TEST(Compare, AFileComesBackAsItWas) {
  Report report = sample_report();
  report.pinned = true;
  report.rows[2].spec.op = Operation::kAllToAllV;
  report.rows[2].spec.pattern = *parse_pattern("zipf", 2);
  report.rows[3].spec.op = Operation::kBroadcast;
  report.rows[3].spec.root = 1;
  report.rows[4].spec.dtype = DType::kI64;
  report.rows[5].spec.op = Operation::kWinPutRate;
  report.rows[5].spec.depth = 4;
  const OldRun run = stored(report);
  EXPECT_EQ(run.machine.cpu, report.machine.cpu);
  EXPECT_EQ(run.machine.flags, "-O2");
  EXPECT_EQ(run.machine.commit, "v1-2-gabc");
  EXPECT_TRUE(run.pinned);
  ASSERT_EQ(run.rows.size(), report.rows.size());
  EXPECT_EQ(run.rows[2].op, "alltoallv");
  EXPECT_EQ(run.rows[2].pattern, "zipf:1");
  EXPECT_EQ(run.rows[3].root, 1);
  EXPECT_EQ(run.rows[4].dtype, "i64");
  EXPECT_EQ(run.rows[5].depth, 4);
  // Every row finds itself.
  const Comparison comparison = compare(run, report, 0);
  EXPECT_EQ(comparison.rows.size(), report.rows.size());
  EXPECT_THAT(comparison.only_old, IsEmpty());
  EXPECT_THAT(comparison.only_now, IsEmpty());
}

TEST(Compare, TheSameIsNotSlower) {
  const Comparison comparison =
      compare(stored(sample_report()), sample_report(), 0);
  EXPECT_EQ(comparison.slower(), 0);
  EXPECT_DOUBLE_EQ(comparison.rows[0].ratio.median, 1);
}

TEST(Compare, SlowerBeyondTheThresholdIs) {
  const OldRun old = stored(sample_report());
  EXPECT_EQ(compare(old, scaled(1.2), 0.05).slower(), 8);
  EXPECT_EQ(compare(old, scaled(1.2), 0.25).slower(), 0);
  EXPECT_EQ(compare(old, scaled(1.04), 0.05).slower(), 0);
  EXPECT_EQ(compare(old, scaled(0.8), 0.05).slower(), 0);
  EXPECT_EQ(compare(old, scaled(0.8), 0.05).rows[0].verdict, Verdict::kFaster);
}

TEST(Compare, WhatScattersMoreIsNotSlower) {
  Report then = sample_report();
  Report now = sample_report();
  // Medians 20 % apart, but rounds that range from half to twice.
  for (Row& row : then.rows) row.round_p50_us = {5, 8, 10, 14, 20};
  for (Row& row : now.rows) row.round_p50_us = {6, 9, 12, 16, 24};
  EXPECT_EQ(compare(stored(then), now, 0.05).slower(), 0);
}

TEST(Compare, OtherCasesAreNamed) {
  Report then = sample_report();
  Report now = sample_report();
  now.rows.erase(now.rows.begin(), now.rows.begin() + 2);  // the barriers
  now.rows[0].spec.reduce = ReduceOp::kMax;
  const Comparison comparison = compare(stored(then), now, 0.05);
  EXPECT_THAT(
      comparison.only_old,
      ElementsAre("barrier, f32, by distwrap/gloo", "barrier, f32, by raw_gloo",
                  "all_reduce 8 B, f32, sum, by distwrap/gloo"));
  EXPECT_THAT(comparison.only_now,
              ElementsAre("all_reduce 8 B, f32, max, by distwrap/gloo"));
  const std::string text = comparison_text(comparison);
  EXPECT_THAT(text, HasSubstr("only then: barrier"));
  EXPECT_THAT(text, HasSubstr("0 of 5 slower"));
}

TEST(Compare, TheTableTellsBothTimesAndTheVerdict) {
  const std::string text =
      comparison_text(compare(stored(sample_report()), scaled(2), 0.1));
  EXPECT_THAT(text, HasSubstr("2025-01-02 03:04 UTC"));
  EXPECT_THAT(text, HasSubstr("2.000 [2.000, 2.000]  SLOWER"));
  EXPECT_THAT(text, HasSubstr("8 of 8 slower by more than 10 %"));
}

TEST(Compare, RunsThatDoNotFitAreToldApart) {
  const Report report = sample_report();
  EXPECT_TRUE(comparable(stored(report), report).ok());
  Report other = report;
  other.machine.cpu = "another";
  EXPECT_THAT(misfit(other, report), HasSubstr("processor was 'another'"));
  other = report;
  other.machine.cores = 64;
  EXPECT_THAT(misfit(other, report),
              HasSubstr("number of cores was 64 and is 2"));
  other = report;
  other.machine.build_type = "Debug";
  EXPECT_THAT(misfit(other, report),
              HasSubstr("build type was 'Debug' and is 'Release'"));
  other = report;
  other.machine.flags = "-O0";
  other.ranks = 4;
  EXPECT_THAT(misfit(other, report), HasSubstr("compiler flags was '-O0'"));
  EXPECT_THAT(misfit(other, report), HasSubstr("number of ranks was 4 and"));
  other = report;
  other.pinned = true;
  EXPECT_THAT(misfit(other, report), HasSubstr("pinned was yes and is no"));
  other = report;
  other.plan.evictor = std::make_shared<Evictor>(0);
  EXPECT_THAT(misfit(other, report), HasSubstr("cold caches was yes"));
  // Another commit or date does not matter, since one compares those.
  other = report;
  other.machine.commit = "v2";
  other.machine.version = "9";
  other.machine.date = "2030";
  EXPECT_TRUE(comparable(stored(other), report).ok());
}

TEST(Compare, FilesThatAreNoRunsAreRefused) {
  const auto said = [](absl::string_view text) {
    return std::string(parse_document(text).status().message());
  };
  EXPECT_THAT(said(""), HasSubstr("cannot be read"));
  EXPECT_THAT(said("{\"schema\": 2"), HasSubstr("cannot be read"));
  EXPECT_THAT(said("[1, 2]"), HasSubstr("not written by --json-file"));
  EXPECT_THAT(said("{\"peer\": \"gloo\"}"), HasSubstr("not written by"));
  EXPECT_THAT(said("{\"tool\": 3}"), HasSubstr("cannot be read"));
  EXPECT_THAT(said("{\"tool\": \"distwrap bench\", \"schema\": 1}"),
              HasSubstr("its schema is 1, known is 2"));
  EXPECT_THAT(said("{\"tool\": \"distwrap bench\", \"schema\": 2}"),
              HasSubstr("cannot be read"));
  // A value of another type somewhere inside.
  const std::string good = json_document(sample_report());
  EXPECT_THAT(said(absl::StrReplaceAll(
                  good, {{"\"bytes\": 4096", "\"bytes\": \"many\""}})),
              HasSubstr("cannot be read"));
}

}  // namespace
}  // namespace distwrap::bench
