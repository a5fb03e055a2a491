// The counts and the output of `distwrap bench groups` and `distwrap bench
// objects`.
#include "bench/groups/making.h"
#include "bench/groups/planning.h"
#include "bench/groups/show.h"
#include "bench/objects/cost.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace distwrap::bench {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(GroupPlanning, SizesEndWithTheMost) {
  EXPECT_THAT(planning_sizes(2), ElementsAre(2));
  EXPECT_THAT(planning_sizes(16), ElementsAre(2, 8, 16));
  EXPECT_THAT(planning_sizes(32), ElementsAre(2, 8, 32));
}

// A split sends a few requests to the store for each rank, plus one for each
// word; the last rank reads and deletes the words.
TEST(GroupPlanning, TrafficGrowsWithTheRanksAlone) {
  for (const int ranks : {2, 16, 256}) {
    const PlanningRow row = measure_planning(ranks, 1e-6);
    EXPECT_EQ(row.ranks, ranks);
    EXPECT_GT(row.own_us, 0);
    EXPECT_GT(row.lists_us, 0);
    // The first request, one to say "here", the decision, "gone"; the last
    // deletes four keys.
    EXPECT_EQ(row.split.requests, 4 * ranks + 4);
    // A word to write and one to delete.
    EXPECT_EQ(row.by_color.requests, 4 * ranks + 4 + 2 * ranks + 1);
    EXPECT_LT(row.split.bytes, ranks * 2000);
    // Each rank gets the words of all.
    EXPECT_GT(row.by_color.bytes, int64_t{20} * ranks * ranks);
  }
}

MakingRow sample_row() {
  return {.engine = "distwrap/gloo",
          .ranks = 2,
          .split_us = 500,
          .new_us = 400,
          .destroy_us = 100,
          .rounds = 7};
}

TEST(GroupMaking, TimesSurviveTheFile) {
  const auto row = read_times(write_times(sample_row()));
  ASSERT_TRUE(row.ok()) << row.status();
  EXPECT_EQ(row->split_us, 500);
  EXPECT_EQ(row->new_us, 400);
  EXPECT_EQ(row->destroy_us, 100);
  EXPECT_EQ(row->rounds, 7);
  EXPECT_FALSE(read_times("").ok());
  EXPECT_FALSE(read_times("1 2 x 4").ok());
}

GroupsReport sample_report() {
  GroupsReport report;
  report.machine.cpu = "Test CPU";
  report.planning = {{.ranks = 2,
                      .own_us = 0.5,
                      .lists_us = 0.25,
                      .split = {12, 1200},
                      .by_color = {17, 2000}},
                     {.ranks = 16,
                      .own_us = 5,
                      .lists_us = 2,
                      .split = {68, 6800},
                      .by_color = {101, 20000}}};
  MakingRow torch = sample_row();
  torch.engine = "torch/gloo";
  torch.split_us = -1;
  torch.new_us = 1200;
  report.making = {sample_row(), torch};
  return report;
}

TEST(GroupsReport, TheTablesShowEachAndItsRatio) {
  const std::string planning = show_planning(sample_report());
  EXPECT_THAT(planning, HasSubstr("split_group_by_color"));
  EXPECT_THAT(planning, HasSubstr("Test CPU"));
  const std::string making = show_making(sample_report());
  EXPECT_THAT(making, HasSubstr("torch/gloo"));
  EXPECT_THAT(making, HasSubstr("3.000x"));
}

TEST(GroupsReport, JsonHasWhatTheTablesHave) {
  const json document = json::parse(groups_json(sample_report()));
  EXPECT_EQ(document.at("schema"), 1);
  EXPECT_EQ(document.at("planning").at(1).at("ranks"), 16);
  EXPECT_EQ(document.at("planning").at(1).at("split_group").at("requests"), 68);
  EXPECT_EQ(document.at("making").at(0).at("split_group_us"), 500);
  EXPECT_TRUE(document.at("making").at(1).at("split_group_us").is_null());
}

TEST(GroupsReport, ThePictureHasBothCurves) {
  const std::string svg = plot_planning(sample_report());
  EXPECT_THAT(svg, HasSubstr("own group of all ranks"));
  EXPECT_THAT(svg, HasSubstr("all lists of eights"));
}

TEST(ObjectCost, BlocksSurviveTheFile) {
  const ObjectBlocks blocks{{1, 2}, {3, 4}, {5, 6.5}};
  const auto read = read_blocks(write_blocks(blocks));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_THAT(read->objects, ElementsAre(1, 2));
  EXPECT_THAT(read->raw, ElementsAre(3, 4));
  EXPECT_THAT(read->again, ElementsAre(5, 6.5));
  EXPECT_FALSE(read_blocks("").ok());
  EXPECT_FALSE(read_blocks("1 2\n").ok());
}

TEST(ObjectCost, TheRatioIsThatOfTheRounds) {
  const ObjectCost cost{"gloo", 2, 1024, {{2, 4, 8}, {1, 2, 4}, {1, 2, 4}}};
  EXPECT_THAT(show_cost(cost), HasSubstr("2.000"));
  const json document = json::parse(cost_json(cost));
  EXPECT_EQ(document.at("ratio").at("median"), 2);
  EXPECT_EQ(document.at("control").at("median"), 1);
  EXPECT_EQ(document.at("bytes"), 1024);
}

}  // namespace
}  // namespace distwrap::bench
