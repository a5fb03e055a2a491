// `distwrap bench` with real processes.
#include "process.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_split.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

namespace distwrap::cli {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

using Words = std::vector<std::string>;

class Bench : public testing::Test {
 protected:
  Bench() {
    char path[] = "/tmp/distwrap_bench_XXXXXX";
    folder_ = mkdtemp(path);
    options_.env["DISTWRAP_RUN_DIR"] = folder_;
    options_.env["DISTWRAP_BENCH_TEST"] = folder_;
  }
  ~Bench() override { fs::remove_all(folder_); }

  std::unique_ptr<Process> start(const Words& words) {
    Words argv = {DISTWRAP, "bench"};
    argv.insert(argv.end(), words.begin(), words.end());
    return std::make_unique<Process>(argv, options_);
  }

  static std::vector<json> rows(const std::string& out) {
    std::vector<json> all;
    for (const std::string& line :
         Words(absl::StrSplit(out, '\n', absl::SkipEmpty()))) {
      if (line[0] == '{') all.push_back(json::parse(line));
    }
    return all;
  }
  static json header(const std::string& out) {
    return json::parse(out.substr(0, out.find('\n')));
  }
  std::string file(const std::string& name) const {
    std::ifstream in(folder_ + "/" + name);
    return {std::istreambuf_iterator<char>(in), {}};
  }

  std::string folder_;
  Process::Options options_;
};

// A barrier, 17 more that move data and 5 on windows.
TEST_F(Bench, EveryOperationIsRightOnTwoRanks) {
  auto bench =
      start({"all", "--sizes", "8,4K", "-n", "5", "--rounds", "2", "--json"});
  ASSERT_EQ(bench->wait(), 0) << bench->err();
  const auto all = rows(bench->out());
  EXPECT_THAT(all, SizeIs(1 + 17 * 2 + 5 * 2));
  EXPECT_EQ(header(bench->out()).at("schema"), 2);
  EXPECT_EQ(header(bench->out()).at("options").at("rounds"), 2);
  for (const json& row : all) {
    EXPECT_EQ(row.at("correct"), true) << row;
    EXPECT_EQ(row.at("ranks"), 2) << row;
    EXPECT_EQ(row.at("iters"), 10) << row;
  }
}

TEST_F(Bench, SaysOnceWhyNothingWasMeasured) {
  auto bench = start({"win_put", "--ranks", "1", "--backend", "loopback",
                      "--sizes", "8,64", "-n", "5", "--rounds", "1"});
  ASSERT_EQ(bench->wait(), 0) << bench->err();
  EXPECT_THAT(
      Words(absl::StrSplit(bench->out(),
                           "distwrap/loopback was not measured: there is "
                           "no other rank\n")),
      SizeIs(2));
}

// Windows that are made of messages are measured like other windows.
TEST_F(Bench, OperationsOnWindowsOverGloo) {
  auto bench =
      start({"win_put", "win_get", "win_fetch_add", "--backend", "gloo",
             "--sizes", "8,4K", "-n", "5", "--rounds", "2", "--json"});
  ASSERT_EQ(bench->wait(), 0) << bench->err();
  const auto all = rows(bench->out());
  ASSERT_THAT(all, SizeIs(3 * 2));
  for (const json& row : all) EXPECT_EQ(row.at("correct"), true) << row;
}

TEST_F(Bench, OtherTypesReductionsAndRanks) {
  auto bench = start({"all_reduce", "broadcast", "reduce_scatter", "-d", "i64",
                      "-o", "max", "-r", "2", "--ranks", "3", "--sizes", "1000",
                      "-n", "3", "--rounds", "1", "--json"});
  ASSERT_EQ(bench->wait(), 0) << bench->err();
  const auto all = rows(bench->out());
  ASSERT_THAT(all, SizeIs(3));
  for (const json& row : all) {
    EXPECT_EQ(row.at("correct"), true) << row;
    EXPECT_EQ(row.at("dtype"), "int64") << row;
  }
}

TEST_F(Bench, BackendsTakeTurnsAndAreCompared) {
  auto bench = start({"all_reduce", "--ranks", "1", "--backend",
                      "loopback,gloo", "--sizes", "64", "-n", "5", "--plot",
                      folder_ + "/plot.svg", "--json-file",
                      folder_ + "/run.json", "--csv", folder_ + "/run.csv"});
  ASSERT_EQ(bench->wait(), 0) << bench->err();
  EXPECT_THAT(bench->out(), HasSubstr("distwrap/loopback"));
  EXPECT_THAT(bench->out(), HasSubstr("all results correct"));
  const json document = json::parse(file("run.json"));
  ASSERT_THAT(document.at("rows"), SizeIs(2));
  EXPECT_TRUE(document.at("rows")[1].contains("ratio"));
  EXPECT_THAT(file("plot.svg"), HasSubstr("</svg>"));
  EXPECT_THAT(file("run.csv"), HasSubstr("\"distwrap/gloo\",all_reduce,1,64"));
}

TEST_F(Bench, TellsWhatDistwrapCostsAboveTheTable) {
  auto bench = start({"--overhead", "-n", "20", "--rounds", "6"});
  ASSERT_EQ(bench->wait(), 0) << bench->err();
  EXPECT_THAT(bench->out(), HasSubstr("overhead over backend"));
  EXPECT_THAT(bench->out(), HasSubstr("all results correct"));
  for (const char* op : {"barrier", "all_to_all_v", "exscan"}) {
    EXPECT_THAT(bench->out(), HasSubstr(absl::StrCat(op, " ")));
  }
  bench = start({"all_reduce,gather_v", "--overhead", "-n", "20", "--rounds",
                 "6", "--sizes", "8,4K", "--json"});
  ASSERT_EQ(bench->wait(), 0) << bench->err();
  const auto all = rows(bench->out());
  ASSERT_THAT(all, SizeIs(2 * 2 * 2));
  for (size_t i = 0; i < all.size(); i += 2) {
    EXPECT_EQ(all[i].at("peer"), "distwrap/loopback");
    EXPECT_EQ(all[i + 1].at("peer"), "table/loopback");
    EXPECT_EQ(all[i].at("correct"), true);
    EXPECT_EQ(all[i + 1].at("correct"), true);
    const json more = all[i].at("overhead_ns");
    EXPECT_LE(more.at("low"), more.at("median"));
    EXPECT_LE(more.at("median"), more.at("high"));
    EXPECT_FALSE(all[i + 1].contains("overhead_ns"));
  }
}

TEST_F(Bench, PatternsGiveCountsToEachRank) {
  const std::string matrix = folder_ + "/matrix";
  std::ofstream(matrix) << "0 3\n1 2\n";
  auto bench = start({"all_to_all_v", "--pattern", matrix, "--sizes", "1200",
                      "-n", "3", "--rounds", "1", "--json"});
  ASSERT_EQ(bench->wait(), 0) << bench->err();
  const auto all = rows(bench->out());
  ASSERT_THAT(all, SizeIs(1));
  EXPECT_EQ(all[0].at("op"), "alltoallv");
  EXPECT_EQ(all[0].at("sent_bytes"), json({1200, 1200}));
  EXPECT_EQ(all[0].at("received_bytes"), json({400, 2000}));
  EXPECT_EQ(all[0].at("self_bytes"), json({0, 800}));
  EXPECT_EQ(all[0].at("correct"), true);
}

TEST_F(Bench, LimitsStandBesideTheRows) {
  auto bench = start({"all_reduce", "barrier", "--sizes", "4K", "-n", "5",
                      "--rounds", "1", "--limit", "--json"});
  ASSERT_EQ(bench->wait(), 0) << bench->err();
  EXPECT_TRUE(header(bench->out()).contains("limits"));
  for (const json& row : rows(bench->out())) {
    if (row.at("op") == "barrier") continue;
    EXPECT_GT(row.at("limit_us"), 0);
    EXPECT_GT(row.at("limit_reached"), 0);
  }
}

TEST_F(Bench, ColdCachesAreCorrectToo) {
  auto bench = start({"all_reduce", "--sizes", "4K", "-n", "3", "--rounds", "1",
                      "--cold", "--json"});
  ASSERT_EQ(bench->wait(), 0) << bench->err();
  const auto all = rows(bench->out());
  ASSERT_THAT(all, SizeIs(1));
  EXPECT_EQ(all[0].at("correct"), true);
  EXPECT_EQ(all[0].at("iters"), 3);
  EXPECT_EQ(header(bench->out()).at("options").at("cold"), true);
}

TEST_F(Bench, MemoryOfTheBackendIsCorrectToo) {
  auto bench = start({"all_reduce", "reduce_scatter", "win_put", "--backend",
                      "shm", "--memory", "shared", "--sizes", "4K,2M", "-n",
                      "3", "--rounds", "1", "--json"});
  ASSERT_EQ(bench->wait(), 0) << bench->err();
  const auto all = rows(bench->out());
  ASSERT_THAT(all, SizeIs(6));
  for (const json& row : all) {
    EXPECT_EQ(row.at("correct"), true);
    EXPECT_EQ(row.at("peer"), "distwrap/shm/shared");
  }
}

TEST_F(Bench, AnEarlierRunIsComparedWith) {
  const std::string old = folder_ + "/old.json";
  auto bench = start({"all_reduce", "--sizes", "64", "-n", "20", "--rounds",
                      "6", "--json-file", old});
  ASSERT_EQ(bench->wait(), 0) << bench->err();
  // A row that took a million times as long then is not slower now, but one
  // that took a millionth is: no noise is that large.
  const auto scale = [&](double factor) {
    json document = json::parse(file("old.json"));
    for (json& row : document.at("rows")) {
      row.at("lat_us_p50") = row.at("lat_us_p50").get<double>() * factor;
      for (json& p50 : row.at("rounds_lat_us_p50")) {
        p50 = p50.get<double>() * factor;
      }
    }
    std::ofstream(old) << document;
  };
  const Words again = {"all_reduce", "--sizes", "64",        "-n", "20",
                       "--rounds",   "6",       "--compare", old};
  scale(1e6);
  bench = start(again);
  ASSERT_EQ(bench->wait(), 0) << bench->err();
  EXPECT_THAT(bench->out(), HasSubstr("0 of 1 slower by more than 5 %"));
  EXPECT_THAT(bench->out(), HasSubstr("faster"));
  scale(1e-12);
  bench = start(again);
  EXPECT_EQ(bench->wait(), 1);
  EXPECT_THAT(bench->out(), HasSubstr("SLOWER"));
  EXPECT_THAT(bench->err(), HasSubstr("1 rows became slower"));

  // Runs that cannot be compared end before they start.
  const std::vector<std::pair<Words, std::string>> bad = {
      {{"barrier", "--compare", old}, "none of the operations"},
      {{"all_reduce", "--ranks", "3", "--compare", old}, "number of ranks was"},
      {{"all_reduce", "--cold", "--compare", old}, "cold caches was"},
      {{"all_reduce", "--compare", folder_ + "/none"}, "No such file"},
      {{"all_reduce", "--compare", DISTWRAP}, "cannot be read"},
  };
  for (const auto& [words, said] : bad) {
    bench = start(words);
    EXPECT_EQ(bench->wait(), 2) << said;
    EXPECT_THAT(bench->out(), IsEmpty());
    EXPECT_THAT(bench->err(), HasSubstr(said));
  }
}

TEST_F(Bench, OtherKindsOfText) {
  auto bench = start(
      {"all_reduce", "--sizes", "64", "-n", "3", "--rounds", "1", "--nccl"});
  ASSERT_EQ(bench->wait(), 0) << bench->err();
  EXPECT_THAT(bench->out(), HasSubstr("# Out of bounds values : 0 OK"));
  EXPECT_THAT(bench->out(), HasSubstr("  float     sum      -1"));
  bench = start({"all_reduce", "--sizes", "64,4K", "-n", "3", "--rounds", "1",
                 "--plot", "-"});
  ASSERT_EQ(bench->wait(), 0) << bench->err();
  EXPECT_THAT(bench->out(),
              HasSubstr("all_reduce, p50 over bytes: a distwrap"));
  // Without a terminal there is no line that overwrites itself.
  EXPECT_THAT(bench->err(), Not(HasSubstr("\r")));
}

TEST_F(Bench, JoinsTheRanksOfALauncher) {
  Process run({DISTWRAP, "run", "-n", "2", "--output", "raw", "--", DISTWRAP,
               "bench", "barrier", "-n", "3", "--json"},
              options_);
  ASSERT_EQ(run.wait(), 0) << run.err();
  EXPECT_THAT(rows(run.out()), SizeIs(1));
}

TEST_F(Bench, OperationsOfOthersPrintNothing) {
  auto bench = start({"--op", "all_gather_object", "--json"});
  EXPECT_EQ(bench->wait(), 0);
  EXPECT_THAT(bench->out(), IsEmpty());
  EXPECT_THAT(bench->err(),
              HasSubstr("all_gather_object is not measured here"));
}

TEST_F(Bench, BadOptionsEndWithTwoBeforeAnythingStarts) {
  const std::vector<std::pair<Words, std::string>> bad = {
      {{"allreduce"}, "did you mean all_reduce?"},
      {{"-n", "0"}, "--iters"},
      {{"--sizes", "4Q"}, "'4Q' is not a size"},
      {{"--vs", "nobody"}, "there is no 'nobody'"},
      {{"--ranks", "two"}, "--ranks"},
      {{"--nonsense"}, "--nonsense"},
      {{"--memory", "wide"}, "--memory: has to be private or shared"},
      {{"all_to_all_v", "--pattern", "zipff"}, "did you mean zipf?"},
      {{"all_to_all_v", "--pattern", "/proc/version"}, "/proc/version:1:1"},
      {{"--rounds", "3", "--precision", "2"}, "--precision"},
      {{"--overhead", "--backend", "gloo"}, "--overhead"},
      {{"--overhead", "--ranks", "2"}, "--overhead: measures one rank"},
      {{"--json", "--nccl"}, "only one of them can write to stdout"},
      {{"--plot", "/nonexistent/plot.svg"}, "cannot write"},
  };
  for (const auto& [words, said] : bad) {
    auto bench = start(words);
    EXPECT_EQ(bench->wait(), 2) << said;
    EXPECT_THAT(bench->out(), IsEmpty());
    EXPECT_THAT(bench->err(), HasSubstr(said));
  }
}

TEST_F(Bench, AnUnknownBackendIsToldOnce) {
  auto bench = start({"barrier", "--backend", "nobody"});
  EXPECT_EQ(bench->wait(), 1);
  const std::string err = bench->err();
  const size_t first = err.find("kBackendUnknown");
  ASSERT_NE(first, std::string::npos) << err;
  EXPECT_EQ(err.find("kBackendUnknown", first + 1), std::string::npos) << err;
}

TEST_F(Bench, AKilledRankEndsItWithAnError) {
  auto bench = start(
      {"all_reduce", "--sizes", "1M", "--rounds", "10000", "--seconds", "1"});
  ASSERT_TRUE(bench->read_until("slowest rank", 1)) << bench->err();
  pid_t victim = -1;
  const auto ours = processes_with("DISTWRAP_BENCH_TEST", folder_);
  for (pid_t pid : processes_with("DISTWRAP_RANK", "1")) {
    if (std::find(ours.begin(), ours.end(), pid) != ours.end()) victim = pid;
  }
  ASSERT_GT(victim, 0);
  ASSERT_EQ(kill(victim, SIGKILL), 0);
  EXPECT_EQ(bench->wait(), 128 + SIGKILL) << bench->err();
  EXPECT_THAT(bench->err(), HasSubstr("rank 1"));
  EXPECT_THAT(bench->out(), Not(HasSubstr("all results correct")));
  EXPECT_THAT(processes_with("DISTWRAP_BENCH_TEST", folder_), IsEmpty());
}

}  // namespace
}  // namespace distwrap::cli
