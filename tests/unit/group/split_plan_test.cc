#include "group/split_plan.h"

#include "base/error.h"
#include "group/rank_map.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <initializer_list>
#include <numeric>
#include <random>
#include <set>
#include <string>
#include <vector>

namespace distwrap::group {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::vector<int> counted(int n) {
  std::vector<int> ranks(static_cast<size_t>(n));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

TEST(SplitPlan, FindsTheCallersPlace) {
  const auto place = check_lists({{3, 1}, {0, 2}}, 4, 2, "split_group");
  ASSERT_TRUE(place.ok()) << place.status();
  EXPECT_EQ(place->list, 1);
  EXPECT_EQ(place->position, 1);
  EXPECT_EQ(check_lists({{3, 1}}, 4, 2, "split_group")->list, -1);
}

TEST(SplitPlan, BadListsAreNamed) {
  const auto says = [](const RankLists& lists, const char* text) {
    const absl::Status status =
        check_lists(lists, 4, 0, "split_group").status();
    EXPECT_EQ(error_reason(status), Reason::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr(text));
  };
  says({}, "no list");
  says({{0}, {}}, "list 1 is empty");
  says({{0, 4}}, "rank 4 of list 0 is not in the parent, whose size is 4");
  says({{-1}}, "rank -1");
  says({{1, 1}}, "rank 1 is named twice");
  says({{0, 1}, {2, 1}}, "rank 1 is named twice");
}

TEST(SplitPlan, GlobalRanksGoThroughTheParent) {
  const ChildPlan plan = plan_child(std::vector<int>{2, 0}, {7, 5, 9});
  EXPECT_THAT(plan.global_ranks, ElementsAre(9, 7));
}

TEST(SplitPlan, UidsDependOnAllThatEnters) {
  std::set<uint64_t> seen;
  const std::vector<std::vector<int>> lists = {
      {0, 1}, {1, 0}, {0, 1, 2}, {0}, {1}, counted(8), counted(9), counted(64)};
  for (const auto& members : lists)
    for (const char* desc : {"", "a", "b"})
      for (uint64_t generation : std::initializer_list<uint64_t>{0, 1, 2})
        for (uint64_t parent : std::initializer_list<uint64_t>{1, 2})
          seen.insert(child_uid(parent, hash_ranks(members), desc, generation));
  EXPECT_EQ(seen.size(), lists.size() * 3 * 3 * 2);
}

TEST(SplitPlan, EachRankOfALongListCounts) {
  std::vector<int> ranks = counted(1000);
  std::set<uint64_t> seen = {hash_ranks(ranks)};
  for (size_t i = 0; i + 1 < ranks.size(); ++i) {
    std::swap(ranks[i], ranks[i + 1]);
    seen.insert(hash_ranks(ranks));
    std::swap(ranks[i], ranks[i + 1]);
  }
  EXPECT_EQ(seen.size(), ranks.size());
}

TEST(SplitPlan, ListsAreComparedAsWritten) {
  EXPECT_NE(hash_lists({{0, 1}, {2}}), hash_lists({{0}, {1, 2}}));
  EXPECT_NE(hash_lists({{0, 1}}), hash_lists({{1, 0}}));
  EXPECT_EQ(hash_lists({{0, 1}}), hash_lists({{0, 1}}));
}

TEST(SplitPlan, LongListsAreShownShort) {
  EXPECT_EQ(show_lists({{0, 1}, {2}}), "[[0, 1], [2]]");
  const std::string text = show_lists({counted(1000)});
  EXPECT_LT(text.size(), 200u);
  EXPECT_THAT(text, StartsWith("[[0, 1, 2"));
}

TEST(SplitPlan, ColoursMakeListsInTheirOrder) {
  EXPECT_THAT(lists_of_colors({{5, 0}, {-1, 0}, {2, 9}, {5, -3}, {2, 9}}),
              ElementsAre(ElementsAre(2, 4), ElementsAre(3, 0)));
  EXPECT_TRUE(lists_of_colors({{-1, 0}}).empty());
}

TEST(RankMap, FindsWhatASearchFinds) {
  std::mt19937 random(7);
  std::vector<std::vector<int>> lists = {
      {}, {5}, {0, 1, 2}, {10, 7, 4}, {1, 2, 9}, {2, 1, 3}, {2, 100000, 1}};
  for (int i = 0; i < 20; ++i) {
    std::vector<int> ranks = counted(200);
    std::shuffle(ranks.begin(), ranks.end(), random);
    ranks.resize(static_cast<size_t>(2 + i * 9));
    lists.push_back(ranks);
  }
  for (const auto& ranks : lists) {
    const RankMap map(ranks);
    for (int rank = -3; rank < 210; ++rank) {
      const auto at = std::find(ranks.begin(), ranks.end(), rank);
      EXPECT_EQ(map.find(rank),
                at == ranks.end() ? -1 : static_cast<int>(at - ranks.begin()));
    }
  }
}

TEST(RankMap, EvenStepsTakeNoMemory) {
  const std::vector<int> steps = {3, 11, 19, 27}, ascending = {1, 2, 7};
  EXPECT_EQ(RankMap(steps).table_bytes(), 0u);
  EXPECT_EQ(RankMap(ascending).table_bytes(), 0u);
}

}  // namespace
}  // namespace distwrap::group
