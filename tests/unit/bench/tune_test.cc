// Thresholds: what is measured, where they are found, and the file.
#include "bench/tune/report.h"
#include "group/tuning_file.h"

#include <absl/strings/match.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <stdlib.h>
#include <string>
#include <vector>

namespace distwrap::bench {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

// Sizes from 1 KiB on; the default threshold is 4 KiB.
Found found(const std::vector<Ratio>& ratios) {
  std::vector<SizeRatio> points;
  for (const Ratio& ratio : ratios)
    points.push_back({int64_t{1024} << points.size(), ratio});
  return find_threshold(4096, points);
}

TEST(Tune, AThresholdMovesThroughSizesThatAreFasterForIt) {
  const Ratio faster = {0.8, 0.75, 0.85}, slower = {1.25, 1.2, 1.3};
  const Ratio unclear = {0.8, 0.5, 1.1}, alike = {0.98, 0.97, 0.99};
  EXPECT_EQ(found({slower, slower, faster, faster}).bytes, 4096);
  EXPECT_EQ(found({slower, slower, faster, faster}).gain, 0);
  EXPECT_EQ(found({slower, faster, faster, faster}).bytes, 2048);
  EXPECT_NEAR(found({slower, faster, faster, faster}).gain, 0.25, 1e-9);
  EXPECT_EQ(found({faster, faster, faster, faster}).bytes, 1024) << "all";
  EXPECT_EQ(found({slower, slower, slower, faster}).bytes, 8192);
  EXPECT_NEAR(found({slower, slower, slower, faster}).gain, 0.25, 1e-9);
  EXPECT_EQ(found({slower, slower, slower, slower}).bytes, 16384) << "none";
  for (const Ratio& noise :
       {unclear, alike, Ratio{1.02, 1.01, 1.03}, Ratio{1.25, 0.9, 2}})
    EXPECT_EQ(found({faster, noise, noise, slower}).bytes, 4096)
        << "what lies behind what is not clear is not reached";
}

TEST(Tune, EveryThresholdOfTheBackendIsMeasuredSomewhere) {
  std::set<std::string> names, all;
  for (const int ranks : {2, 4})
    for (const Experiment& one : experiments(ranks)) {
      names.insert(one.name);
      const std::vector<int64_t> sizes = one.sizes();
      EXPECT_GT(sizes.size(), 5u);
      EXPECT_GE(sizes.front(), 1024);
      EXPECT_LE(sizes.front(), one.usual) << one.name;
      EXPECT_GE(sizes.back(), one.usual) << one.name;
      EXPECT_LE(2 * sizes.back(), 1 << 30);
      EXPECT_THAT(one.always(), HasSubstr(one.name + "=1024"));
      EXPECT_THAT(one.never(), HasSubstr(one.name + "=1073741824"));
    }
    // The backend itself measures the thresholds that end in "_tried".
#define SHM_TUNING(name, bytes, what, way) \
  if (!absl::EndsWith(#name, "_tried")) all.insert(#name);
#include "shm/tuning.def"
  EXPECT_EQ(names, all);
}

TEST(Tune, WhatRanksTellIsRead) {
  const Points points = {
      {"sliced_two", {{1024, {1.25, 1, 2}}, {2048, {0.5, 0.25, 1}}}}};
  const auto read = read_points(write_points(points));
  ASSERT_TRUE(read.ok()) << read.status();
  ASSERT_EQ(read->at("sliced_two").size(), 2u);
  EXPECT_EQ(read->at("sliced_two")[1].size, 2048);
  EXPECT_EQ(read->at("sliced_two")[1].ratio.median, 0.5);
  EXPECT_EQ(read->at("sliced_two")[1].ratio.low, 0.25);
  EXPECT_EQ(read->at("sliced_two")[1].ratio.high, 1);
  for (const char* const bad :
       {"a", "a 1", "a b 1 1 1", "a 1 b 1 1", "a 1 0 1 1", "a 1 1 1"})
    EXPECT_FALSE(read_points(bad).ok()) << bad;
}

// Twice as fast from half of the default size on.
TuneReport sample() {
  Points points;
  for (const Experiment& one : experiments(2))
    for (const int64_t size : one.sizes())
      points[one.name].push_back(
          {size, size < one.usual / 2 ? Ratio{2, 2, 2} : Ratio{0.5, 0.5, 0.5}});
  Machine machine;
  machine.cpu = "A Processor";
  machine.cores = 2;
  machine.date = "2025-11-21 17:40 UTC";
  machine.version = "0.1.0";
  auto report = tune_report(machine, 2, points);
  EXPECT_TRUE(report.ok()) << report.status();
  points.erase("sliced_two");
  EXPECT_FALSE(tune_report(machine, 2, points).ok());
  return *std::move(report);
}

TEST(Tune, TheFileIsWhatTheLibraryReads) {
  const std::string text = tuning_text(
      sample(), {{"shm.sliced_two", "5"}, {"shm.sliced_more", "7"}});
  EXPECT_THAT(text, HasSubstr("distwrap 0.1.0, 2025-11-21 17:40 UTC"));
  EXPECT_THAT(text, HasSubstr("A Processor, 2 processors; 2 ranks"));
  EXPECT_THAT(
      text,
      HasSubstr(
          "shm.sliced_two = 131072  # default 262144; 100 % faster between"));
  const auto file = group::TuningFile::parse(text, "/f");
  ASSERT_TRUE(file.ok()) << file.status();
  const std::string hint = file->hints().at("shm");
  EXPECT_THAT(hint, HasSubstr("sliced_two=131072"));
  EXPECT_THAT(hint, HasSubstr("sliced_more=7")) << "from an earlier run";
}

TEST(Tune, TableAndJsonSayTheSame) {
  const TuneReport report = sample();
  EXPECT_THAT(show_tuning(report), HasSubstr("shm.sliced_two"));
  EXPECT_THAT(show_tuning(report), HasSubstr("256 KiB  128 KiB"));
  const auto document = nlohmann::json::parse(tuning_json(report, "/f"));
  EXPECT_EQ(document.at("file"), "/f");
  EXPECT_EQ(document.at("ranks"), 2);
  const auto& first = document.at("thresholds").at(0);
  EXPECT_EQ(first.at("name"), "shm.sliced_two");
  EXPECT_EQ(first.at("found"), 131072);
  EXPECT_EQ(first.at("sizes").size(), report.tuned[0].points.size());
}

TEST(Tune, FilesAreReplacedWhole) {
  std::string folder = "/tmp/distwrap-tune-XXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  const std::string path = folder + "/f";
  EXPECT_TRUE(values_of(path)->empty()) << "no file";
  EXPECT_TRUE(check_writable(path).ok());
  for (const char* const text : {"shm.a = 5\n", "shm.a = 6\nx.b = 7\n"}) {
    ASSERT_TRUE(replace_file(path, text).ok());
    std::ifstream in(path);
    EXPECT_EQ(std::string(std::istreambuf_iterator<char>(in), {}), text);
  }
  EXPECT_THAT(*values_of(path),
              ElementsAre(Pair("shm.a", "6"), Pair("x.b", "7")));
  ASSERT_TRUE(replace_file(path, "nonsense\n").ok());
  EXPECT_FALSE(values_of(path).ok());
  EXPECT_EQ(std::distance(fs::directory_iterator(folder), {}), 1)
      << "something was left behind";
  for (const std::string& bad :
       {folder + "/no/f", folder, std::string("/proc/f")}) {
    EXPECT_THAT(std::string(check_writable(bad).message()),
                HasSubstr("cannot write '" + bad + "'"));
  }
  EXPECT_FALSE(replace_file(folder + "/no/f", "").ok());
  fs::remove_all(folder);
}

}  // namespace
}  // namespace distwrap::bench
