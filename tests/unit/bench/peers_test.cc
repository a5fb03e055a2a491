// `distwrap bench` against other MPI libraries, where there are any.
#include "process.h"

#include <absl/strings/match.h>
#include <absl/strings/str_split.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <signal.h>
#include <string>
#include <unistd.h>
#include <vector>

namespace distwrap::cli {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using Words = std::vector<std::string>;

class Peers : public testing::TestWithParam<std::string> {
 protected:
  Peers() {
    char path[] = "/tmp/distwrap_peers_XXXXXX";
    folder_ = mkdtemp(path);
    options_.env["DISTWRAP_RUN_DIR"] = folder_;
    options_.env["PEERS_TEST"] = folder_;  // marks the processes of this test
    options_.env["TMPDIR"] = folder_;
  }
  ~Peers() override { fs::remove_all(folder_); }

  std::unique_ptr<Process> start(const Words& words) {
    Words argv = {program_};
    if (argv[0] != DISTWRAP_BENCH_PEERS) argv.push_back("bench");
    argv.insert(argv.end(), words.begin(), words.end());
    return std::make_unique<Process>(argv, options_);
  }
  // Whether the contestant was built and its MPI is installed.
  bool is_here(const std::string& name) {
    auto help = start({"--help"});
    EXPECT_EQ(help->wait(), 0);
    const std::string text = help->out();
    const size_t line = text.find("  " + name + ": ");
    EXPECT_NE(line, std::string::npos) << text;
    return !absl::StrContains(text.substr(line, text.find('\n', line) - line),
                              "not here");
  }
  // A comparison that goes on until something ends it.
  std::unique_ptr<Process> start_long() {
    return start({"all_reduce", "--backend", "none", "--vs", GetParam(),
                  "--timeout", "20", "--rounds", "10000", "--seconds", "3600",
                  "-n", "1000", "--sizes", "64K"});
  }
  // No process, file or folder.
  void expect_nothing_left() const {
    // A launcher of an MPI does not wait for the end of processes that it
    // kills, and takes its own folder away when it ends itself.
    const auto left = [this] { return processes_with("PEERS_TEST", folder_); };
    for (int i = 0; i < 4000 && !left().empty(); ++i) usleep(5000);
    EXPECT_THAT(left(), IsEmpty());
    for (const auto& entry : fs::directory_iterator(folder_))
      ADD_FAILURE() << entry.path() << " is left";
  }
  // The ranks that distwrap's launcher has started, by their numbers.
  std::vector<pid_t> bench_ranks(pid_t launcher) const {
    std::vector<pid_t> some;
    for (pid_t pid : processes_with("PEERS_TEST", folder_)) {
      std::ifstream stat("/proc/" + std::to_string(pid) + "/stat");
      std::string number, name, state;
      pid_t parent = 0;
      stat >> number >> name >> state >> parent;
      if (parent == launcher) some.push_back(pid);
    }
    std::sort(some.begin(), some.end());
    return some;
  }
  // The processes of the MPI, among the processes of this test.
  std::vector<pid_t> mpi_processes() const {
    std::vector<pid_t> some;
    for (pid_t pid : processes_with("PEERS_TEST", folder_)) {
      std::error_code error;
      const auto program =
          fs::read_symlink("/proc/" + std::to_string(pid) + "/exe", error);
      if (absl::StartsWith(program.filename().string(), "mpi_peer")) {
        some.push_back(pid);
      }
    }
    return some;
  }

  std::string program_ = DISTWRAP;
  std::string folder_;
  Process::Options options_;
};

TEST_P(Peers, EveryOperationIsRight) {
  if (!is_here(GetParam())) GTEST_SKIP() << "no " << GetParam();
  auto bench = start({"all", "--backend", "none", "--vs", GetParam(), "-n", "2",
                      "--rounds", "1", "-w", "1", "--sizes", "4,4K", "--json"});
  ASSERT_EQ(bench->wait(), 0) << bench->err();
  int rows = 0;
  for (const std::string& line :
       Words(absl::StrSplit(bench->out(), '\n', absl::SkipEmpty()))) {
    if (line[0] != '{') continue;
    ++rows;
    EXPECT_THAT(line, HasSubstr("\"peer\":\"" + GetParam() + "\""));
    EXPECT_THAT(line, HasSubstr("\"correct\":true"));
  }
  // MPICH has no windows.
  const int on_windows = GetParam() == "openmpi" ? 5 : 0;
  EXPECT_EQ(rows, 1 + (17 + on_windows) * 2);
  EXPECT_THAT(processes_with("PEERS_TEST", folder_), IsEmpty());
}

TEST_P(Peers, OtherRootsTypesPatternsAndColdCaches) {
  if (!is_here(GetParam())) GTEST_SKIP() << "no " << GetParam();
  auto bench = start({"reduce,gather,scatter_v,broadcast,all_to_all_v,scan",
                      "--backend",
                      "none",
                      "--vs",
                      GetParam(),
                      "--root",
                      "1",
                      "-d",
                      "i64",
                      "-o",
                      "max",
                      "--pattern",
                      "one-hot:1",
                      "--cold",
                      "-n",
                      "1",
                      "--rounds",
                      "1",
                      "--sizes",
                      "1K"});
  ASSERT_EQ(bench->wait(), 0) << bench->err();
  EXPECT_THAT(bench->out(), HasSubstr("all results correct"));
}

// The MPI lacks the type: a gap in the table, and the next size is measured.
TEST_P(Peers, WhatItLacksIsLeftOut) {
  if (!is_here(GetParam())) GTEST_SKIP() << "no " << GetParam();
  auto bench = start({"all_reduce", "--vs", GetParam(), "-d", "bf16", "-n", "1",
                      "--rounds", "1", "--sizes", "64,1K"});
  ASSERT_EQ(bench->wait(), 0) << bench->err();
  EXPECT_THAT(bench->out(), HasSubstr("all results correct"));
}

TEST_P(Peers, TakesTurnsWithDistwrap) {
  if (!is_here(GetParam())) GTEST_SKIP() << "no " << GetParam();
  program_ = DISTWRAP_BENCH_PEERS;  // the program with all contestants
  auto bench = start({"all_reduce", "--vs", GetParam() + ",memcpy", "-n", "2",
                      "--rounds", "6", "--sizes", "64"});
  ASSERT_EQ(bench->wait(), 0) << bench->err();
  EXPECT_THAT(bench->out(), HasSubstr("distwrap/shm"));
  EXPECT_THAT(bench->out(), HasSubstr("/ " + GetParam()));
}

TEST_P(Peers, AKilledProcessEndsItWithAnErrorAndLeavesNone) {
  if (!is_here(GetParam())) GTEST_SKIP() << "no " << GetParam();
  auto bench = start_long();
  ASSERT_TRUE(bench->read_until("slowest rank", 1)) << bench->err();
  const std::vector<pid_t> all = mpi_processes();
  ASSERT_EQ(all.size(), 2u);
  ASSERT_EQ(kill(all.back(), SIGKILL), 0);
  EXPECT_EQ(bench->wait(), 1);
  EXPECT_THAT(bench->err(), HasSubstr(GetParam()));
  EXPECT_THAT(bench->out(), Not(HasSubstr("all results correct")));
  expect_nothing_left();
}

// The rank that has made the folder of the MPI's sockets, or another one.
TEST_P(Peers, AKilledRankLeavesNoFolder) {
  if (!is_here(GetParam())) GTEST_SKIP() << "no " << GetParam();
  for (const size_t victim : {0u, 1u}) {
    auto bench = start_long();
    ASSERT_TRUE(bench->read_until("slowest rank", 1)) << bench->err();
    const std::vector<pid_t> ranks = bench_ranks(bench->pid());
    ASSERT_EQ(ranks.size(), 2u);
    ASSERT_EQ(kill(ranks[victim], SIGKILL), 0);
    EXPECT_EQ(bench->wait(), 128 + SIGKILL) << bench->err();
    expect_nothing_left();
  }
}

INSTANTIATE_TEST_SUITE_P(Mpi, Peers, testing::Values("openmpi", "mpich"),
                         [](const auto& each) { return each.param; });

class UnknownPeers : public Peers {
 protected:
  // The command ends before anything starts, with an error that contains all of
  // `said`.
  void expect_refused(const Words& words, const Words& said) {
    auto bench = start(words);
    EXPECT_EQ(bench->wait(), 2);
    EXPECT_THAT(bench->out(), IsEmpty());
    for (const std::string& text : said) {
      EXPECT_THAT(bench->err(), HasSubstr(text));
    }
    EXPECT_TRUE(fs::is_empty(folder_ + "/run"));
  }
  void SetUp() override {
    options_.env["DISTWRAP_RUN_DIR"] = folder_ + "/run";
    fs::create_directory(folder_ + "/run");
  }
};

TEST_F(UnknownPeers, ListWhatThereIs) {
  expect_refused(
      {"all_reduce", "--vs", "nobody"},
      {"there is no 'nobody'", "  openmpi: ", "  mpich: ", "did you mean"});
  program_ = DISTWRAP_BENCH_PEERS;
  expect_refused({"all_reduce", "--vs", "raw_glo"},
                 {"there is no 'raw_glo'", "did you mean raw_gloo?",
                  "  raw_gloo: ", "  openmpi: ", "  memcpy: "});
}

class PlannedPeers : public UnknownPeers {};

TEST_F(PlannedPeers, DoWhatTheCollectivesDo) {
  program_ = DISTWRAP_BENCH_PEERS;
  auto bench = start({"all_reduce", "reduce_scatter", "all_gather",
                      "all_to_all", "--vs", "redistribute", "-n", "2",
                      "--backend", "shm", "--rounds", "1", "--sizes", "64,4K"});
  ASSERT_EQ(bench->wait(), 0) << bench->err();
  EXPECT_THAT(bench->out(), HasSubstr("/ redistribute"));
  EXPECT_THAT(bench->out(), HasSubstr("all results correct"));
}

TEST_F(UnknownPeers, AreNotStartedWithoutTheirLauncher) {
  if (!is_here("mpich")) GTEST_SKIP() << "no mpich";
  options_.env["PATH"] = folder_;
  expect_refused({"all_reduce", "--vs", "mpich"},
                 {"mpich is not here: mpiexec.mpich is not in PATH: install "
                  "mpich",
                  "  openmpi: "});
}

TEST_F(UnknownPeers, AreNotStartedWithoutTheirHelper) {
  fs::create_directory(folder_ + "/bin");
  program_ = folder_ + "/bin/distwrap";
  fs::copy_file(DISTWRAP, program_);
  for (const char* name : {"openmpi", "mpich"}) {
    const std::string helper =
        folder_ + "/libexec/distwrap/mpi_peer_" + std::string(name);
    expect_refused(
        {"all_reduce", "--vs", name},
        {std::string(name) + " is not here: " + helper +
             " is missing: build distwrap with lib" + name + "-dev installed",
         "-DDISTWRAP_BUILD_PEERS=ON"});
  }
}

}  // namespace
}  // namespace distwrap::cli
