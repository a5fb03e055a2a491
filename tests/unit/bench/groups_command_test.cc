// `distwrap bench groups` and `distwrap bench objects` with real ranks.
#include "process.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <stdlib.h>
#include <string>
#include <vector>

namespace distwrap::cli {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

using Words = std::vector<std::string>;

class BenchPages : public testing::Test {
 protected:
  BenchPages() {
    char path[] = "/tmp/distwrap_pages_XXXXXX";
    folder_ = mkdtemp(path);
    options_.env["DISTWRAP_RUN_DIR"] = folder_;
    options_.env["TMPDIR"] = folder_;
  }
  ~BenchPages() override { fs::remove_all(folder_); }

  std::unique_ptr<Process> start(const Words& words) {
    Words argv = {DISTWRAP, "bench"};
    argv.insert(argv.end(), words.begin(), words.end());
    return std::make_unique<Process>(argv, options_);
  }

  std::string folder_;
  Process::Options options_;
};

// Arguments of simulated exchanges that cannot be used end with 2 and one line.
TEST_F(BenchPages, ExchangesOfExpertsAreSimulatedOrRefused) {
  std::ofstream(folder_ + "/router") << "0 1\n2 3\n";
  const std::string file = folder_ + "/router";
  auto good = start({"moe", "--simulate", "2x2", "--experts", "4", "--topk",
                     "2", "--tokens", "8", "--hidden", "16", "--json"});
  ASSERT_EQ(good->wait(), 0) << good->err();
  const json document = json::parse(good->out());
  EXPECT_EQ(document["dispatch"]["none"]["inter_rows"].get<int64_t>() +
                document["dispatch"]["none"]["intra_rows"].get<int64_t>() +
                document["dispatch"]["none"]["local_rows"].get<int64_t>(),
            4 * 8 * 2);
  const std::pair<Words, const char*> bad[] = {
      {{"--simulate", "0x8"}, "--simulate: '0x8' is not NODESxRANKS"},
      {{"--simulate", "8x8", "--links", "net=0"}, "--links: 'net=0' is not"},
      {{"--simulate", "8x8", "--links", "wire=5"}, "--links: 'wire=5' is not"},
      {{"--simulate", "3x1"}, "--experts: '64' is not a multiple of 3"},
      {{"--simulate", "2x1", "--dtype", "f31"}, "--dtype: 'f31' is not"},
      {{"--simulate", "2x1", "--capacity", "0"}, "--capacity"},
      {{"--simulate", "2x1", "--tokens", "2", "--experts", "4", "--topk", "2",
        "--router", file},
       ":2: the file ends after 2 of the 4 tokens"},
      {{"--groups", "3:1"}, "--groups: '3:1' is not"},
      {{"--vs", "gloo"}, "--vs: 'gloo' is not torch, openmpi or mpich"},
  };
  for (const auto& [options, says] : bad) {
    Words words = {"moe"};
    words.insert(words.end(), options.begin(), options.end());
    auto refused = start(words);
    EXPECT_EQ(refused->wait(), 2) << says;
    EXPECT_THAT(refused->err(), HasSubstr(says));
    EXPECT_EQ(refused->out(), "");
  }
}

TEST_F(BenchPages, TracesAreReplayed) {
  std::ofstream(folder_ + "/trace.json")
      << R"([{"comms": "all_reduce", "req": 1, "in_msg_size": 64,
              "out_msg_size": 64, "dtype": "float", "world_size": 2},
             {"comms": "wait", "req": 1},
             {"comms": "all_gather_base", "in_msg_size": 8,
              "out_msg_size": 16, "dtype": "long"}])";
  auto plan = start({"replay", folder_ + "/trace.json", "--dry-run"});
  ASSERT_EQ(plan->wait(), 0) << plan->err();
  EXPECT_THAT(plan->out(), HasSubstr("2 ranks, 4 calls, 1 groups, on shm"));
  EXPECT_THAT(plan->out(), HasSubstr("nothing was sent"));
  auto replay = start({"replay", folder_ + "/trace.json", "--ranks", "3",
                       "--repeat", "5", "--backend", "shm", "--json"});
  ASSERT_EQ(replay->wait(), 0) << replay->err();
  const json document = json::parse(replay->out());
  EXPECT_EQ(document.at("ranks"), 3);
  EXPECT_GT(document.at("total_us"), 0);
  ASSERT_EQ(document.at("operations").size(), 2u);
  for (const json& row : document.at("operations")) {
    EXPECT_EQ(row.at("calls"), 15);
    EXPECT_GT(row.at("slowest_us"), 0);
  }
  // The command also accepts its name as an option.
  auto table = start({"--replay", folder_ + "/trace.json"});
  ASSERT_EQ(table->wait(), 0) << table->err();
  EXPECT_THAT(table->out(), HasSubstr("slowest rank ms"));
  for (const Words& bad :
       {Words{"replay"}, Words{"replay", folder_ + "/nothing"},
        Words{"replay", folder_ + "/trace.json", "--ranks", "0"}}) {
    auto refused = start(bad);
    EXPECT_EQ(refused->wait(), 2);
    EXPECT_THAT(refused->err(), HasSubstr("distwrap bench replay: "));
  }
}

TEST_F(BenchPages, GroupsAreMeasuredForEachNumberOfRanks) {
  auto bench = start({"groups", "--ranks", "1,2", "--max", "64", "--seconds",
                      "0.01", "--python", "/no/such/python", "--json", "--plot",
                      folder_ + "/groups.svg"});
  ASSERT_EQ(bench->wait(), 0) << bench->err();
  const json document = json::parse(bench->out());
  EXPECT_EQ(document.at("planning").size(), 4u);
  ASSERT_EQ(document.at("making").size(), 2u);
  for (const json& row : document.at("making")) {
    EXPECT_EQ(row.at("engine"), "distwrap/shm");
    EXPECT_GT(row.at("split_group_us"), 0);
    EXPECT_GT(row.at("new_group_us"), 0);
    EXPECT_GT(row.at("destroy_us"), 0);
  }
  EXPECT_THAT(bench->err(), HasSubstr("torch is not measured"));
  EXPECT_TRUE(fs::exists(folder_ + "/groups.svg"));
  fs::remove(folder_ + "/groups.svg");
  EXPECT_TRUE(fs::is_empty(folder_)) << "nothing is left";
}

// A Python with a fake torch module that does the minimum.
TEST_F(BenchPages, TorchStandsBesideIt) {
  const std::string python = folder_ + "/python";
  std::ofstream(python) << "#!/bin/sh\n"
                           "# -c PROGRAM SECONDS PATH, or -c PROBE PATH\n"
                           "if [ $# -eq 3 ]; then echo x > \"$3\"; exit; fi\n"
                           "[ \"$DISTWRAP_RANK\" = 0 ] || exit 0\n"
                           "echo '-1 1000 500 9' > \"$4\"\n";
  fs::permissions(python, fs::perms::owner_all);
  auto bench =
      start({"groups", "--max", "2", "--seconds", "0.01", "--python", python});
  ASSERT_EQ(bench->wait(), 0) << bench->err();
  EXPECT_THAT(bench->out(), HasSubstr("distwrap/shm"));
  EXPECT_THAT(bench->out(), HasSubstr("torch/gloo"));
  EXPECT_THAT(bench->err(), Not(HasSubstr("torch is not measured")));
}

TEST_F(BenchPages, ObjectsAreMeasured) {
  auto bench = start({"objects", "--rounds", "6", "--bytes", "100", "--json"});
  ASSERT_EQ(bench->wait(), 0) << bench->err();
  const json document = json::parse(bench->out());
  EXPECT_EQ(document.at("bytes"), 100);
  EXPECT_EQ(document.at("rounds"), 6);
  EXPECT_GT(document.at("ratio").at("median"), 0);
  EXPECT_TRUE(fs::is_empty(folder_)) << "nothing is left";
}

TEST_F(BenchPages, BadOptionsAndRanksAreTold) {
  const auto refused = [&](const Words& words, int code, const char* text) {
    auto bench = start(words);
    EXPECT_EQ(bench->wait(), code) << bench->err();
    EXPECT_THAT(bench->err(), HasSubstr(text));
  };
  refused({"groups", "--ranks", "0"}, 2, "--ranks");
  refused({"groups", "--max", "many"}, 2, "--max");
  refused({"groups", "--seconds", "0"}, 2, "--seconds");
  refused({"groups", "--plot", "/no/such/folder/x.svg"}, 2, "--plot");
  refused({"groups", "--rank", "2"}, 2, "--ranks");
  refused({"groups", "--max", "2", "--backend", "glue", "--seconds", "0.01"}, 1,
          "glue");
  refused({"objects", "--bytes", "0"}, 2, "--bytes");
  refused({"objects", "--rounds", "x"}, 2, "--rounds");
  options_.env["DISTWRAP_RANK"] = "0";
  refused({"groups"}, 2, "without a launcher");
  refused({"objects"}, 2, "without a launcher");
  refused({"tune"}, 2, "without a launcher");
}

TEST_F(BenchPages, WhatIsTunedCanBeUsed) {
  const std::string file = folder_ + "/tuning";
  options_.env["DISTWRAP_TUNING"] = file;  // does not exist yet
  const Words words = {"tune", "--seconds", "0.1", "--json", "--file", file};
  auto bench = start(words);
  ASSERT_EQ(bench->wait(), 0) << bench->err();
  const json document = json::parse(bench->out());
  EXPECT_EQ(document.at("file"), file);
  EXPECT_FALSE(document.at("thresholds").empty());
  for (const json& row : document.at("thresholds"))
    EXPECT_GE(row.at("found"), 1024);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), {}), 1);
  // Other programs read the file, and it can be written again.
  auto reader = start({"broadcast", "--sizes", "4K", "--rounds", "1"});
  EXPECT_EQ(reader->wait(), 0) << reader->err();
  EXPECT_EQ(start({"tune", "--seconds", "0.1", "--file", file})->wait(), 0);
  std::ofstream(file) << "nonsense\n";
  reader = start({"broadcast", "--sizes", "4K", "--rounds", "1"});
  EXPECT_EQ(reader->wait(), 1);
  EXPECT_THAT(reader->err(), HasSubstr(file + ", line 1"));
  auto again = start(words);
  EXPECT_EQ(again->wait(), 2) << "what is no tuning file is not overwritten";
  EXPECT_THAT(again->err(), HasSubstr(file + ", line 1"));
  auto nowhere = start({"tune", "--file", "/no/such/folder/x"});
  EXPECT_EQ(nowhere->wait(), 2);
  EXPECT_THAT(nowhere->err(), HasSubstr("cannot write '/no/such/folder/x'"));
  auto ranks = start({"tune", "--ranks", "1"});
  EXPECT_EQ(ranks->wait(), 2);
  EXPECT_THAT(ranks->err(),
              HasSubstr("--ranks: '1' is not a number of 2..128"));
}

TEST_F(BenchPages, HaveHelpOfTheirOwn) {
  for (const char* const page : {"groups", "objects", "tune"}) {
    auto help = start({page, "--help"});
    ASSERT_EQ(help->wait(), 0);
    EXPECT_THAT(help->out(), HasSubstr(std::string("distwrap bench ") + page));
  }
}

}  // namespace
}  // namespace distwrap::cli
