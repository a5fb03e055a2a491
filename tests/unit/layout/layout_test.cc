#include "distwrap/layout.h"

#include "distwrap/status.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace distwrap {
namespace {

const MeshShape kNamed{.sizes = {2, 4}, .names = {"dp", "tp"}};

const Layout* parsed(const MeshShape& mesh, absl::string_view text) {
  const auto made = Layout::parse(mesh, text);
  EXPECT_TRUE(made.ok()) << made.status();
  return made.ok() ? *made : nullptr;
}

Reason reason_of(const absl::Status& status) {
  const auto info = error_info(status);
  return info ? info->reason : Reason::kNone;
}

std::vector<int64_t> rows(const Layout& layout, int64_t size) {
  std::vector<int64_t> all;
  for (int64_t rank = 0; rank < layout.ranks(); ++rank)
    all.push_back((*layout.local_shape({size}, rank))[0]);
  return all;
}

TEST(Layout, KeepsTheRegionRule) {
  using List = std::vector<int64_t>;
  EXPECT_EQ(rows(*parsed({{4}}, "S(0)"), 5), (List{2, 2, 1, 0}));
  EXPECT_EQ(rows(*parsed({{2}}, "S(0)"), 1), (List{1, 0}));
  EXPECT_EQ(rows(*parsed({{2, 3}}, "S(0),S(0)"), 4), (List{1, 1, 0, 1, 1, 0}));
  const Layout* const strided = parsed({{2}}, "SS(0,2)");
  EXPECT_EQ(*strided->indices({5}, 0, 0), (List{0, 1, 3}));
  EXPECT_EQ(*strided->indices({5}, 1, 0), (List{2, 4}));
  // A cut dimension of one element is held by coordinate 0 alone.
  EXPECT_EQ(*parsed({{2}}, "S(0)")->offset({1}, 1), (List{1}));
  EXPECT_EQ(*parsed({{2}}, "R")->local_shape({}, 0), List{});
}

TEST(Layout, EqualLayoutsAreOneObject) {
  const Layout* const one = parsed(kNamed, "(P(sum), S(0))");
  EXPECT_EQ(one, parsed(kNamed, "P,S(0)"));
  EXPECT_NE(one, parsed({{2, 4}}, "P,S(0)")) << "a mesh without names";
  EXPECT_NE(one, parsed(kNamed, "P(avg),S(0)"));
  EXPECT_EQ(one->text(), "(P(sum),S(0))");
  EXPECT_NE(one->id(), parsed(kNamed, "R,S(0)")->id());
  const Layout* const ordered = parsed(kNamed, "S(1),S(1) order=1:[1,0]");
  EXPECT_EQ(ordered->text(), "(S(1),S(1)) order=1:[1,0]");
  EXPECT_EQ(ordered, parsed(kNamed, ordered->text()));
  EXPECT_NE(ordered, parsed(kNamed, "S(1),S(1)"));
  EXPECT_EQ(parsed(kNamed, "S(1),S(1) order=1:[0,1]"),
            parsed(kNamed, "S(1),S(1)"));
}

TEST(Layout, AliasMapsRoundTrip) {
  const std::vector<AliasMap> maps = {{{"dp", "tp"}, {}}, {{"tp", "dp"}, {}},
                                      {{}, {"tp"}},       {{"dp"}, {"tp"}},
                                      {{}, {}},           {{"tp"}, {}, {"dp"}}};
  for (const AliasMap& map : maps) {
    const auto layout = Layout::from_alias_map(kNamed, map);
    ASSERT_TRUE(layout.ok()) << layout.status();
    EXPECT_EQ(*(*layout)->alias_map(static_cast<int>(map.size())), map);
  }
  const auto partial =
      Layout::from_alias_map(kNamed, {{"tp"}}, {{"dp", PartialOp::kMax}});
  EXPECT_EQ((*partial)->text(), "(P(max),S(0))");
  EXPECT_EQ(parsed(kNamed, "P,R")->alias_map(0)->size(), 0u) << "no dimension";
}

// The two spellings of a nested cut hold the same elements where sizes divide.
TEST(Layout, StridedCutsAreAnOrder) {
  const MeshShape mesh{.sizes = {4, 3, 2}, .names = {"a", "b", "c"}};
  const Layout* const strided = parsed(mesh, "SS(0,2),SS(0,2),S(0)");
  const auto map = strided->alias_map(1);
  ASSERT_TRUE(map.ok()) << map.status();
  EXPECT_EQ(*map, (AliasMap{{"c", "a", "b"}}));
  const auto ordered = Layout::from_alias_map(mesh, *map);
  EXPECT_TRUE(*equivalent(*strided, **ordered, {48}));
  EXPECT_FALSE(*equivalent(*strided, **ordered, {25}));
  EXPECT_EQ(reason_of(parsed(mesh, "SS(0,5),R,S(0)")->alias_map(1).status()),
            Reason::kStrideOrder);
}

TEST(Layout, NormsReadBackAsTheyAre) {
  for (const char* const text :
       {"(P(norm2),R)", "(P(norm0.1),P(norm0.1))", "(R,P(norm2.5))"})
    EXPECT_EQ(parsed(kNamed, text)->text(), text);
  EXPECT_EQ(parsed(kNamed, "P(norm2),R")->placements()[0],
            Placement::partial_norm(2));
  EXPECT_NE(parsed(kNamed, "P(norm2),R"), parsed(kNamed, "P(norm3),R"));
  EXPECT_FALSE(*equivalent(*parsed(kNamed, "P(norm2),R"),
                           *parsed(kNamed, "P(norm3),R"), {8}));
}

TEST(Layout, CotangentsFollowTheTable) {
  EXPECT_EQ(cotangent(*parsed(kNamed, "S(0),R")).value()->text(), "(S(0),R)");
  EXPECT_EQ(cotangent(*parsed(kNamed, "P,R^")).value()->text(), "(R^,P(sum))");
  EXPECT_EQ(reason_of(cotangent(*parsed(kNamed, "P(max),R")).status()),
            Reason::kPartialState);
}

TEST(Layout, RefusesWhatIsImpossible) {
  struct Case {
    MeshShape mesh;
    std::string text;
    Reason reason;
  };
  const Case cases[] = {
      {{{}}, "", Reason::kPlacement},
      {{{0}}, "R", Reason::kMeshShape},
      {{{-1, 2}}, "R,R", Reason::kMeshShape},
      {{{1 << 20, 1 << 20}}, "R,R", Reason::kMeshShape},
      {{.sizes = {2}, .names = {"a", "b"}}, "R", Reason::kMeshShape},
      {{.sizes = {2, 2}, .names = {"a", "a"}}, "R,R", Reason::kMeshShape},
      {{.sizes = std::vector<int64_t>(1000000, 1)}, "R", Reason::kMeshShape},
      {kNamed, "R", Reason::kPlacement},
      {kNamed, "R,R,R", Reason::kPlacement},
      {kNamed, "S(-1),R", Reason::kPlacement},
      {kNamed, "S(64),R", Reason::kPlacement},
      {kNamed, "SS(0,0),R", Reason::kPlacement},
      {kNamed, "SS(0,99999999999999999999),R", Reason::kPlacement},
      {kNamed, "S(0,R", Reason::kPlacement},
      {kNamed, "P(mean),R", Reason::kPlacement},
      {kNamed, "R,,R", Reason::kPlacement},
      {kNamed, "P(sum),P(max)", Reason::kPartialState},
      {kNamed, "P(norm2),P(norm1)", Reason::kPartialState},
      {kNamed, "P(norm0),R", Reason::kPartialState},
      {kNamed, "P(norm1e999),R", Reason::kPartialState},
      {kNamed, "P(norm),R", Reason::kPlacement},
      {kNamed, "P(norm-2),R", Reason::kPlacement},
      {kNamed, "S(0),R order=0:[1]", Reason::kPlacement},
      {kNamed, "S(0),S(0) order=0:[1,1]", Reason::kPlacement},
      {kNamed, "S(0),S(0) order=0:[1]", Reason::kPlacement},
      {kNamed, "SS(0,4),S(0) order=0:[1,0]", Reason::kStrideOrder},
      {kNamed, "S(0),S(0) order=", Reason::kPlacement},
      {kNamed, "S(0),S(0) order=0:[1,0],0:[0,1]", Reason::kPlacement},
      {kNamed, "S(0),S(0) order=0:1,0", Reason::kPlacement},
      {kNamed, "S(0),S(0) order=0:[1,x]", Reason::kPlacement},
  };
  for (const Case& one : cases) {
    const auto made = Layout::parse(one.mesh, one.text);
    EXPECT_EQ(reason_of(made.status()), one.reason)
        << one.text << ": " << made.status();
    if (made.ok()) continue;
    EXPECT_FALSE(error_info(made.status())->next_step.empty());
  }
  EXPECT_TRUE(Layout::parse(kNamed, "P(sum),P(avg)").ok());
  for (const AliasMap& map :
       {AliasMap{{"pp"}}, AliasMap{{"dp"}, {"dp"}}, AliasMap{{"dp", "dp"}}})
    EXPECT_EQ(reason_of(Layout::from_alias_map(kNamed, map).status()),
              Reason::kPlacement);
  EXPECT_EQ(reason_of(Layout::from_alias_map(kNamed, {{"dp"}},
                                             {{"dp", PartialOp::kSum}})
                          .status()),
            Reason::kPartialState);
  const Layout* const layout = parsed(kNamed, "R,S(2)");
  EXPECT_EQ(reason_of(layout->local_shape({4, 4}, 0).status()),
            Reason::kPlacement);
  EXPECT_EQ(reason_of(layout->local_shape({4, 4, -1}, 0).status()),
            Reason::kInvalidArgument);
  EXPECT_EQ(reason_of(layout->local_shape({INT64_MAX, 4, 2}, 0).status()),
            Reason::kInvalidArgument);
  EXPECT_EQ(reason_of(layout->local_shape({4, 4, 4}, 8).status()),
            Reason::kInvalidArgument);
}

}  // namespace
}  // namespace distwrap
