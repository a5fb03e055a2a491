// Tables, CSV and JSON.
#include "bench/ascii_plot.h"
#include "bench/csv.h"
#include "bench/json.h"
#include "bench/nccl_text.h"
#include "bench/overhead.h"
#include "bench/table.h"
#include "bench/text_table.h"
#include "sample_report.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_split.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdlib>

namespace distwrap::bench {
namespace {

using nlohmann::json;
using testing::AllOf;
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

TEST(Table, SlowedBlocksAreToldOf) {
  Report report = sample_report();
  EXPECT_THAT(summary(report), Not(HasSubstr("slower")));
  report.rows[1].round_p50_us = {1, 2, 3, 4};
  report.rows[1].repeated = 3;
  report.rows[1].disturbed = 2;
  int64_t blocks = 3;
  for (const Row& row : report.rows)
    blocks += static_cast<int64_t>(row.round_p50_us.size());
  EXPECT_THAT(summary(report),
              AllOf(HasSubstr(absl::StrCat("in 5 of ", blocks, " blocks")),
                    HasSubstr("3 were measured again, 2 of the rest")));
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
  EXPECT_EQ(document.at("schema"), 2);
  EXPECT_EQ(document.at("machine").at("cpu"), report.machine.cpu);
  EXPECT_EQ(document.at("machine").at("cores"), 2);
  EXPECT_EQ(document.at("build").at("type"), "Release");
  EXPECT_EQ(document.at("environment").at("DISTWRAP_LOG"), "info");
  EXPECT_EQ(document.at("baseline"), "raw_gloo");
  ASSERT_EQ(document.at("rows").size(), 7u);
  EXPECT_EQ(document.at("rows")[0].at("rounds_lat_us_p50").size(), 2u);
  EXPECT_EQ(document.at("rows")[0].at("ratio").at("high"), 1.3);
}

TEST(Json, TheOverheadStandsInItsRowOnly) {
  Report report = sample_report();
  EXPECT_THAT(json_line(report.rows[0]), Not(HasSubstr("overhead_ns")));
  report.rows[0].overhead_ns = Difference{12.46, 11, 14};
  EXPECT_THAT(
      json_line(report.rows[0]),
      HasSubstr(R"("overhead_ns":{"median":12.5,"low":11.0,"high":14.0})"));
}

TEST(Table, TheOverheadIsALineForEachCase) {
  Report report = sample_report();
  for (size_t i = 2; i < report.rows.size(); i += 2) {
    report.rows[i].overhead_ns = Difference{12.46, 11, 14};
  }
  const std::string text = overhead_table(report);
  EXPECT_THAT(text, HasSubstr("[11.0, 14.0]"));
  EXPECT_THAT(text, HasSubstr("4 KiB"));
  EXPECT_THAT(text, HasSubstr("16 MiB"));
  // The text names an operation that one rank cannot do.
  EXPECT_THAT(text, HasSubstr("barrier: not between one rank"));
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
  for (const std::string& line : lines) EXPECT_EQ(fields(line), 24u) << line;
  EXPECT_THAT(lines[1], HasSubstr("\"a\"\"quote\",barrier,2,0,f32"));
}

TEST(Json, TheHeaderPrecedesTheLinesOfTheProtocol) {
  const std::string line = json_header(sample_report());
  // Readers of the protocol look for lines that begin with a brace.
  EXPECT_EQ(line.front(), ' ');
  EXPECT_THAT(line, Not(HasSubstr("\n")));
  const json header = json::parse(line);
  EXPECT_EQ(header.at("schema"), 2);
  EXPECT_EQ(header.at("machine").at("memory_bytes"), int64_t{8} << 30);
  EXPECT_EQ(header.at("machine").at("caches")[0].at("bytes"), 32768);
  EXPECT_EQ(header.at("build").at("commit"), "v1-2-gabc");
  EXPECT_EQ(header.at("build").at("flags"), "-O2");
  EXPECT_EQ(header.at("options").at("seconds"), 0.2);
  EXPECT_FALSE(header.contains("rows"));
}

TEST(Json, RowsWithCountsTellWhatEachRankMoves) {
  Row row = sample_report().rows[2];
  row.spec.op = Operation::kAllToAllV;
  row.spec.ranks = 2;
  row.spec.bytes = 1200;
  row.spec.pattern = *parse_pattern("one-hot:1", 2);
  const json line = json::parse(json_line(row));
  EXPECT_EQ(line.at("op"), "alltoallv");
  EXPECT_EQ(line.at("pattern"), "one-hot:1");
  EXPECT_EQ(line.at("sent_bytes"), json({1200, 1200}));
  EXPECT_EQ(line.at("received_bytes"), json({0, 2400}));
  EXPECT_EQ(line.at("self_bytes"), json({0, 1200}));
  EXPECT_EQ(line.at("bus_bytes_without_self"), 1200);
}

TEST(Json, TheLimitStandsBesideWhatWasMeasured) {
  Row row = sample_report().rows[2];
  EXPECT_FALSE(json::parse(json_line(row)).contains("limit_us"));
  row.limit_us = row.p50_us / 4;
  EXPECT_EQ(json::parse(json_line(row)).at("limit_reached"), 0.25);
}

TEST(Table, TheLimitIsAColumn) {
  Report report = sample_report();
  EXPECT_THAT(table(report, Operation::kAllReduce), Not(HasSubstr("limit")));
  report.latency = Latency{0.054, 28};
  for (Row& row : report.rows) row.limit_us = row.p50_us / 5;
  EXPECT_THAT(table(report, Operation::kAllReduce), HasSubstr("     0.2     "));
  EXPECT_THAT(heading(report), HasSubstr("cache line (54 ns)"));
}

TEST(Table, PatternsShowWhatEachRankMoves) {
  Report report = sample_report();
  for (Row& row : report.rows) {
    row.spec.op = Operation::kAllToAllV;
    row.spec.pattern = *parse_pattern("uniform", 2);
  }
  const std::string text = table(report, Operation::kAllToAllV);
  EXPECT_THAT(text, HasSubstr("busbw without what a rank gives to itself"));
  EXPECT_THAT(text, HasSubstr("rank 1: 16 MiB / 16 MiB / 8 MiB"));
}

TEST(Table, RoundsUntilPrecise) {
  Report report = sample_report();
  EXPECT_THAT(heading(report),
              HasSubstr("6 to 20 rounds of 10.00 ms, until known to 2 %"));
  report.plan.rounds = 21;
  EXPECT_THAT(heading(report), HasSubstr("21 rounds of"));
  EXPECT_THAT(heading(report), Not(HasSubstr("until")));
}

TEST(NcclText, HasItsColumns) {
  const std::string text = nccl_text(sample_report(), Operation::kAllReduce);
  std::vector<std::vector<std::string>> rows;
  for (const std::string& line :
       std::vector<std::string>(absl::StrSplit(text, '\n'))) {
    if (line.empty() || line[0] == '#') continue;
    rows.push_back(absl::StrSplit(line, ' ', absl::SkipEmpty()));
  }
  ASSERT_EQ(rows.size(), 6u);  // three sizes by two contestants
  for (const auto& row : rows) ASSERT_EQ(row.size(), 13u);
  EXPECT_EQ(rows[1][0], "4096");
  EXPECT_EQ(rows[1][1], "1024");
  EXPECT_EQ(rows[1][2], "float");
  EXPECT_EQ(rows[1][3], "sum");
  EXPECT_EQ(rows[1][4], "-1");
  EXPECT_EQ(rows[1][5], "60.00");
  EXPECT_EQ(rows[1][8], "0");
  EXPECT_EQ(rows[1][12], "N/A");
}

TEST(NcclText, EndsWithWrongElementsAndMeanBandwidth) {
  Report report = sample_report();
  EXPECT_THAT(nccl_summary(report), HasSubstr("# Out of bounds values : 0 OK"));
  report.rows[2].wrong = 7;
  EXPECT_THAT(nccl_summary(report),
              HasSubstr("# Out of bounds values : 7 FAILED"));
  EXPECT_THAT(nccl_summary(report), HasSubstr("# Avg bus bandwidth    : "));
}

TEST(AsciiPlot, EveryContestantHasItsLetter) {
  const std::string text = ascii_plot(sample_report());
  EXPECT_THAT(text, HasSubstr("all_reduce, p50 over bytes: a distwrap/gloo b "
                              "raw_gloo"));
  EXPECT_THAT(text, Not(HasSubstr("barrier")));
  // 1.25 apart: in some cells they meet.
  const auto count = [&](char c) {
    const size_t from = text.find('|');
    return std::count(text.begin() + static_cast<std::ptrdiff_t>(from),
                      text.end(), c);
  };
  EXPECT_GE(count('a') + count('*'), 3);
  for (const std::string& line :
       std::vector<std::string>(absl::StrSplit(text, '\n'))) {
    EXPECT_LE(line.size(), 79u) << line;
  }
}

TEST(AsciiPlot, SlowerStandsHigher) {
  Report report = sample_report();
  report.contestants = {"fast", "slow"};
  report.rows.resize(4);
  for (size_t i = 2; i < 4; ++i) {
    report.rows[i].contestant = report.contestants[i - 2];
    report.rows[i].p50_us = i == 2 ? 1 : 100;
  }
  const std::string text = ascii_plot(report);
  const size_t body = text.find('\n', text.find("p50"));
  ASSERT_NE(body, std::string::npos);
  EXPECT_LT(text.find('b', body), text.find('a', body));
}

TEST(AsciiPlot, NothingMeasuredIsNothing) {
  Report report = sample_report();
  for (Row& row : report.rows) row.measured = false;
  EXPECT_EQ(ascii_plot(report), "");
}

TEST(Machine, ThisOneIsDescribed) {
  ASSERT_EQ(setenv("DISTWRAP_BENCH_TEST", "a=b", 1), 0);
  const Machine machine = this_machine();
  unsetenv("DISTWRAP_BENCH_TEST");
  EXPECT_GE(machine.cores, 1);
  EXPECT_THAT(machine.kernel, HasSubstr("Linux"));
  EXPECT_FALSE(machine.compiler.empty());
  EXPECT_FALSE(machine.version.empty());
  EXPECT_FALSE(machine.build_type.empty());
  EXPECT_GT(machine.memory_bytes, 1 << 20);
  EXPECT_EQ(machine.environment.at("DISTWRAP_BENCH_TEST"), "a=b");
}

TEST(Machine, SizesOfCaches) {
  EXPECT_EQ(parse_cache_size("32K"), 32768);
  EXPECT_EQ(parse_cache_size("8M"), 8 << 20);
  EXPECT_EQ(parse_cache_size("512"), 512);
  for (const char* bad : {"", "K", "x", "-1K", "0K"}) {
    EXPECT_EQ(parse_cache_size(bad), 0) << bad;
  }
}

TEST(Machine, NoiseIsNotNegative) {
  const Noise noise = NoiseMeter().read();
  EXPECT_GE(noise.steal_percent, 0);
  EXPECT_GE(noise.involuntary_switches, 0);
}

}  // namespace
}  // namespace distwrap::bench
