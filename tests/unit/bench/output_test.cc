// Tables, CSV and JSON.
#include "bench/csv.h"
#include "bench/json.h"
#include "bench/table.h"
#include "bench/text_table.h"
#include "sample_report.h"

#include <absl/strings/str_split.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cstdlib>

namespace distwrap::bench {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

TEST(Table, ColumnsStandRightAndCountCharacters) {
  EXPECT_EQ(
      text_table({}, {{"size", "\u00b5s"}, {"8 B", "1.25"}, {"16 MiB", "3"}}),
      "  size    \u00b5s\n"
      "   8 B  1.25\n"
      "16 MiB     3\n");
  EXPECT_EQ(text_table({}, {}), "");
}

TEST(Table, TitlesSpanColumnsAndWidenThem) {
  EXPECT_EQ(text_table({{"", 1}, {"both", 2}, {"a long one", 1}},
                       {{"size", "min", "longer", "x"}}),
            "      -- both ---  a long one\n"
            "size  min  longer           x\n");
  EXPECT_EQ(text_table({{"very long", 2}}, {{"a", "b"}}),
            "very long\n"
            "a       b\n");
}

TEST(Table, NumbersShowWhatCanBeToldApart) {
  EXPECT_EQ(format_number(0), "0");
  EXPECT_EQ(format_number(0.0000044), "0.000004");
  EXPECT_EQ(format_number(0.01234), "0.0123");
  EXPECT_EQ(format_number(1.2345), "1.234");
  EXPECT_EQ(format_number(12.345), "12.35");
  EXPECT_EQ(format_number(123.45), "123.5");
  EXPECT_EQ(format_number(12345.6), "12346");
}

TEST(Table, ALineForEachSizeAllEquallyLong) {
  const std::string text = table(sample_report(), Operation::kAllReduce);
  EXPECT_THAT(text, HasSubstr("all_reduce, 2 ranks, f32, sum"));
  EXPECT_THAT(text, HasSubstr("16 MiB"));
  EXPECT_THAT(text, HasSubstr("1.250 [1.200, 1.300]"));
  std::vector<std::string> lines = absl::StrSplit(text, '\n');
  ASSERT_EQ(lines.size(), 8u);  // blank, title, two of header, three, end
  for (size_t i = 4; i < 7; ++i) EXPECT_EQ(lines[i].size(), lines[4].size());
}

TEST(Table, ABarrierHasNoBandwidth) {
  const std::string text = table(sample_report(), Operation::kBarrier);
  EXPECT_THAT(text, Not(HasSubstr("busbw")));
  EXPECT_THAT(text, HasSubstr("p99"));
}

TEST(Table, WhatIsWrongIsSaid) {
  Report report = sample_report();
  EXPECT_THAT(summary(report), HasSubstr("all results correct"));
  report.rows[2].wrong = 7;
  EXPECT_EQ(report.wrong(), 7);
  EXPECT_THAT(table(report, Operation::kAllReduce), HasSubstr(" 7\n"));
  EXPECT_THAT(summary(report),
              HasSubstr("WRONG: distwrap/gloo all_reduce of 8 bytes: 7"));
  EXPECT_THAT(summary(report), Not(HasSubstr("all results correct")));
}

TEST(Table, TheControlTellsWhetherTheMachineWasQuiet) {
  Report report = sample_report();
  report.contestants.emplace_back("raw_gloo#2");
  report.control = "raw_gloo#2";
  Row row = report.rows[1];
  row.contestant = report.control;
  row.ratio = Ratio{1.01, 0.99, 1.02};
  report.rows.push_back(row);
  EXPECT_THAT(summary(report), HasSubstr("quiet"));
  report.rows.back().ratio = Ratio{1.2, 1.1, 1.3};
  EXPECT_THAT(summary(report), HasSubstr("noisy"));
}

TEST(Table, ADebugBuildIsSaidToBeOne) {
  Report report = sample_report();
  EXPECT_THAT(heading(report), Not(HasSubstr("build:")));
  report.machine.build_type = "Debug";
  EXPECT_THAT(heading(report), HasSubstr("Debug build"));
}

TEST(Json, ALineSpeaksTheProtocol) {
  const std::string line = json_line(sample_report().rows[4]);
  EXPECT_THAT(line, Not(HasSubstr("\n")));
  EXPECT_EQ(line.front(), '{');
  EXPECT_EQ(line.back(), '}');
  const json row = json::parse(line);
  EXPECT_EQ(row.at("peer"), "distwrap/gloo");
  EXPECT_EQ(row.at("op"), "all_reduce");
  EXPECT_EQ(row.at("ranks"), 2);
  EXPECT_EQ(row.at("bytes"), 4096);
  EXPECT_EQ(row.at("dtype"), "float32");
  EXPECT_EQ(row.at("lat_us_min"), 24);
  EXPECT_EQ(row.at("lat_us_p50"), 60);
  EXPECT_EQ(row.at("lat_us_p99"), 144);
  EXPECT_NEAR(row.at("algbw_GBps").get<double>(), 0.06827, 1e-9);
  EXPECT_EQ(row.at("iters"), 100);
  EXPECT_EQ(row.at("correct"), true);
}

TEST(Json, WrongResultsAreNotCorrect) {
  Row row = sample_report().rows[2];
  row.wrong = 1;
  EXPECT_EQ(json::parse(json_line(row)).at("correct"), false);
  EXPECT_EQ(json::parse(json_line(row)).at("wrong"), 1);
}

TEST(Json, TheDocumentTellsWhereAndWithWhat) {
  Report report = sample_report();
  report.machine.environment["DISTWRAP_RUN_DIR"] = "/tmp/\xff";  // no UTF-8
  report.rows[2].measured = false;
  const json document = json::parse(json_document(report));
  EXPECT_EQ(document.at("schema"), 1);
  EXPECT_EQ(document.at("machine").at("cpu"), report.machine.cpu);
  EXPECT_EQ(document.at("machine").at("cores"), 2);
  EXPECT_EQ(document.at("build").at("type"), "Release");
  EXPECT_EQ(document.at("environment").at("DISTWRAP_LOG"), "info");
  EXPECT_EQ(document.at("baseline"), "raw_gloo");
  ASSERT_EQ(document.at("rows").size(), 7u);
  EXPECT_EQ(document.at("rows")[0].at("rounds_lat_us_p50").size(), 2u);
  EXPECT_EQ(document.at("rows")[0].at("ratio").at("high"), 1.3);
}

TEST(Csv, AsManyFieldsAsTheHeader) {
  Report report = sample_report();
  report.rows[0].contestant = "a\"quote";
  const std::vector<std::string> lines =
      absl::StrSplit(csv(report), '\n', absl::SkipEmpty());
  ASSERT_EQ(lines.size(), 9u);
  const auto fields = [](const std::string& line) {
    return std::vector<std::string>(absl::StrSplit(line, ',')).size();
  };
  for (const std::string& line : lines) EXPECT_EQ(fields(line), 18u) << line;
  EXPECT_THAT(lines[1], HasSubstr("\"a\"\"quote\",barrier,2,0,f32"));
}

TEST(Machine, ThisOneIsDescribed) {
  ASSERT_EQ(setenv("DISTWRAP_BENCH_TEST", "a=b", 1), 0);
  const Machine machine = this_machine();
  unsetenv("DISTWRAP_BENCH_TEST");
  EXPECT_GE(machine.cores, 1);
  EXPECT_THAT(machine.kernel, HasSubstr("Linux"));
  EXPECT_FALSE(machine.compiler.empty());
  EXPECT_EQ(machine.environment.at("DISTWRAP_BENCH_TEST"), "a=b");
}

}  // namespace
}  // namespace distwrap::bench
