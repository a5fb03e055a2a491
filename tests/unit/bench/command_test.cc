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
      all.push_back(json::parse(line));
    }
    return all;
  }
  std::string file(const std::string& name) const {
    std::ifstream in(folder_ + "/" + name);
    return {std::istreambuf_iterator<char>(in), {}};
  }

  std::string folder_;
  Process::Options options_;
};

TEST_F(Bench, EveryOperationIsRightOnTwoRanksOverGloo) {
  auto bench =
      start({"all", "--sizes", "8,4K", "-n", "5", "--rounds", "2", "--json"});
  ASSERT_EQ(bench->wait(), 0) << bench->err();
  const auto all = rows(bench->out());
  EXPECT_THAT(all, SizeIs(1 + 6 * 2));
  for (const json& row : all) {
    EXPECT_EQ(row.at("correct"), true) << row;
    EXPECT_EQ(row.at("ranks"), 2) << row;
    EXPECT_EQ(row.at("iters"), 10) << row;
  }
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

TEST_F(Bench, JoinsTheRanksOfALauncher) {
  Process run({DISTWRAP, "run", "-n", "2", "--output", "raw", "--", DISTWRAP,
               "bench", "barrier", "-n", "3", "--json"},
              options_);
  ASSERT_EQ(run.wait(), 0) << run.err();
  EXPECT_THAT(rows(run.out()), SizeIs(1));
}

TEST_F(Bench, OperationsOfOthersPrintNothing) {
  auto bench = start({"--op", "win_put", "--json"});
  EXPECT_EQ(bench->wait(), 0);
  EXPECT_THAT(bench->out(), IsEmpty());
  EXPECT_THAT(bench->err(), HasSubstr("win_put is not measured here"));
}

TEST_F(Bench, BadOptionsEndWithTwoBeforeAnythingStarts) {
  const std::vector<std::pair<Words, std::string>> bad = {
      {{"allreduce"}, "did you mean all_reduce?"},
      {{"-n", "0"}, "--iters"},
      {{"--sizes", "4Q"}, "'4Q' is no size"},
      {{"--vs", "nobody"}, "there is no 'nobody'"},
      {{"--ranks", "two"}, "--ranks"},
      {{"--nonsense"}, "--nonsense"},
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
