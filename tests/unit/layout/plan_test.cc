#include "distwrap/plan.h"

#include "distwrap/status.h"
#include "unit/layout/placement_texts.h"
#include "unit/layout/simulated_plan.h"

#include <absl/strings/str_cat.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

namespace distwrap::layout {
namespace {

const Layout& layout(const MeshShape& mesh, absl::string_view text) {
  const auto made = Layout::parse(mesh, text);
  EXPECT_TRUE(made.ok()) << text << ": " << made.status();
  return **made;
}

PlanRef planned(const MeshShape& mesh, std::vector<int64_t> shape,
                absl::string_view from, absl::string_view to,
                PlanOptions options = {}) {
  const auto plan =
      make_plan(shape, 4, layout(mesh, from), layout(mesh, to), options);
  EXPECT_TRUE(plan.ok()) << plan.status();
  return plan.ok() ? *plan : nullptr;
}

TEST(Plan, TextIsKept) {
  EXPECT_EQ(planned({{2, 4}}, {8, 6}, "P(sum),S(0)", "S(0),S(0)")->text(),
            "plan 1 mesh=[2,4] shape=[8,6] item=4 mode=fastest cap=16777216\n"
            "src=(P(sum),S(0)) dst=(S(0),S(0))\n"
            "1 reduce_scatter g=[0] op=sum d=[0] recv=6 max=6\n"
            "2 exchange g=[0,1] kind=permute recv=6 max=6\n"
            "= collectives=2 recv=12 peak=24 node=0\n");
  EXPECT_EQ(planned({{4}}, {8}, "S(0)", "R")->text(),
            "plan 1 mesh=[4] shape=[8] item=4 mode=fastest cap=16777216\n"
            "src=(S(0)) dst=(R)\n"
            "1 all_gather g=[0] d=[0] recv=6 max=8\n"
            "= collectives=1 recv=6 peak=10 node=0\n");
  EXPECT_EQ(planned({{4}}, {8}, "S(0)", "S(0)")->text(),
            "plan 1 mesh=[4] shape=[8] item=4 mode=fastest cap=16777216\n"
            "src=(S(0)) dst=(S(0))\n"
            "= collectives=0 recv=0 peak=4 node=0\n");
}

TEST(Plan, NormsAreReduced) {
  EXPECT_EQ(planned({{4}}, {8}, "P(norm2)", "S(0)")->text(),
            "plan 1 mesh=[4] shape=[8] item=4 mode=fastest cap=16777216\n"
            "src=(P(norm2)) dst=(S(0))\n"
            "1 reduce_scatter g=[0] op=norm2 d=[0] recv=6 max=2\n"
            "= collectives=1 recv=6 peak=10 node=0\n");
  for (const char* const from : {"R", "S(0)", "P(norm3)", "P(sum)"})
    EXPECT_EQ(error_reason(make_plan({8}, 4, layout({{4}}, from),
                                     layout({{4}}, "P(norm2)"))
                               .status()),
              Reason::kPartialTarget)
        << from;
}

// The steps of gradients, by those of the values.
TEST(Plan, BackwardFollowsTheTable) {
  struct Row {
    const char *from, *to, *backward;
  };
  const Row rows[] = {
      {"S(0)", "S(1)", "exchange"},
      {"P", "R", ""},
      {"S(0)", "R", "slice"},
      {"P", "R^", "all_reduce"},
      {"S(0)", "R^", "reduce_scatter"},
      {"P", "S(0)", "all_gather"},
      {"R", "S(0)", "all_gather"},
      {"R", "P", ""},
      {"R^", "S(0)", "fill"},
      {"R^", "P", "fill"},
      {"R", "R^", "all_reduce"},
      {"S(0)", "P", "slice"},
      {"R^", "R", "fill"},
  };
  for (const Row& row : rows) {
    const auto plan = backward_plan({8, 4}, 4, layout({{4}}, row.from),
                                    layout({{4}}, row.to));
    ASSERT_TRUE(plan.ok()) << row.from << row.to << plan.status();
    std::string steps;
    for (const PlanStep& step : (*plan)->steps())
      absl::StrAppend(&steps, plan_step_name(step.kind));
    EXPECT_EQ(steps, row.backward) << row.from << "->" << row.to;
    EXPECT_EQ(&(*plan)->source(), *cotangent(layout({{4}}, row.to)));
    EXPECT_EQ(&(*plan)->target(), *cotangent(layout({{4}}, row.from)));
  }
  for (const auto& [from, to] :
       {std::pair("P(max)", "R"), std::pair("R", "P(max)")})
    EXPECT_EQ(error_reason(backward_plan({8, 4}, 4, layout({{4}}, from),
                                         layout({{4}}, to))
                               .status()),
              Reason::kPartialState);
}

// A plan that is made again is the same one; other arguments have another, also
// when many push each other out of the table.
TEST(Plan, IsRemembered) {
  const MeshShape mesh{{2, 4}};
  const auto plan = [&](std::vector<int64_t> shape, PlanOptions options = {}) {
    return planned(mesh, std::move(shape), "P(sum),S(0)", "S(0),S(0)", options);
  };
  const PlanRef first = plan({8, 6});
  EXPECT_EQ(plan({8, 6}), first);
  EXPECT_NE(plan({8, 7}), first);
  EXPECT_NE(plan({8, 6}, {.mode = PlanMode::kFewestBytes}), first);
  EXPECT_NE(plan({8, 6}, {.cap_bytes = 1}), first);
  EXPECT_NE(plan({8, 6}, {.ranks_per_host = 2}), first);
  EXPECT_NE(*make_plan({8, 6}, 8, first->source(), first->target()), first);
  EXPECT_NE(planned(mesh, {8, 6}, "P(sum),S(0)", "S(0),R"), first);
  std::vector<std::string> texts;
  for (int64_t n = 1; n <= 1000; ++n) texts.push_back(plan({n, 6})->text());
  for (int64_t n = 1; n <= 1000; ++n)
    EXPECT_EQ(plan({n, 6})->text(), texts[static_cast<size_t>(n - 1)]);
  // A refusal is no plan, and is found anew.
  for (int i = 0; i < 2; ++i)
    EXPECT_FALSE(make_plan({8}, 4, first->source(), layout({{8}}, "R")).ok());
}

// 1 GiB of f32 on 8 by 8 ranks; MiB received by a rank, and collectives.
TEST(Plan, FloorsOfAnEightByEightMesh) {
  struct Row {
    const char *from, *to;
    double mib;
    int collectives;
  };
  const Row rows[] = {
      {"R,S(0)", "S(1),S(1)", 14, 1},       {"P,P", "R,R", 2016, 2},
      {"S(0),S(0)", "S(1),S(1)", 15.75, 1}, {"P,S(0)", "R,R", 1120, 2},
      {"S(0),S(1)", "S(1),S(0)", 16, 1},    {"P,S(0)", "S(0),S(0)", 128, 2},
      {"S(0),S(0)", "R,S(0)", 128, 1},      {"P,S(0)", "S(1),S(1)", 126, 2},
      {"S(0),R", "R,S(0)", 128, 1},         {"S(0),S(0)", "R,R", 1008, 1},
  };
  for (const Row& row : rows) {
    const PlanRef plan = planned({{8, 8}}, {16384, 16384}, row.from, row.to,
                                 {.mode = PlanMode::kFewestBytes});
    EXPECT_LE(static_cast<double>(plan->received()) * 4 / (1 << 20), row.mib)
        << plan->text();
    EXPECT_LE(plan->collectives(), row.collectives) << plan->text();
  }
}

std::vector<std::string> placements(int dims, bool partial) {
  std::vector<std::string> all = {"R"};
  for (int d = 0; d < dims; ++d) all.push_back("S(" + std::to_string(d) + ")");
  if (partial)
    for (const char* op : {"P(sum)", "P(avg)", "P(max)"}) all.push_back(op);
  return all;
}

// The parts of all ranks: whole numbers, so that sums and divisions by the mesh
// are exact.
Parts random_parts(const Layout& layout, absl::Span<const int64_t> shape,
                   std::mt19937& random) {
  int64_t count = 1;
  for (const int64_t extent : shape) count *= extent;
  std::vector<double> whole(static_cast<size_t>(count));
  Parts parts;
  // Ranks that differ on partial axes hold other values, the rest equal ones.
  std::vector<int> partial;
  for (size_t a = 0; a < layout.placements().size(); ++a)
    if (layout.placements()[a].kind == Placement::Kind::kPartial)
      partial.push_back(static_cast<int>(a));
  std::map<std::vector<int64_t>, Parts> by_coordinate;
  for (int64_t rank = 0; rank < layout.ranks(); ++rank) {
    std::vector<int64_t> key;
    for (const int axis : partial)
      key.push_back(layout.coordinate(rank)[static_cast<size_t>(axis)]);
    if (!by_coordinate.contains(key)) {
      for (double& one : whole) one = static_cast<double>(random() % 64) * 720;
      by_coordinate[key] = cut(whole, layout, shape);
    }
    parts.push_back(by_coordinate[key][static_cast<size_t>(rank)]);
  }
  return parts;
}

void check_pair(const MeshShape& mesh, const std::vector<int64_t>& shape,
                const Layout& from, const Layout& to, std::mt19937& random) {
  const Parts given = random_parts(from, shape, random);
  const std::vector<double> expected = joined(given, from, shape);
  int64_t least = -1;
  for (const PlanMode mode :
       {PlanMode::kFewestBytes, PlanMode::kFastest, PlanMode::kPyTorch}) {
    const auto plan = make_plan(shape, 8, from, to, {.mode = mode});
    if (!plan.ok()) {
      const Reason reason = error_info(plan.status())->reason;
      ASSERT_TRUE(reason == Reason::kPartialTarget ||
                  reason == Reason::kStrideOrder)
          << plan.status();
      return;
    }
    SCOPED_TRACE((*plan)->text());
    ASSERT_EQ(joined(run(**plan, given), to, shape), expected);
    if (mode == PlanMode::kFewestBytes) least = (*plan)->received();
    // PyTorch's steps divide an average beside a sum at another time.
    if (mode != PlanMode::kPyTorch) {
      ASSERT_GE((*plan)->received(), least);
    }
    if (mode == PlanMode::kFewestBytes && (*plan)->floor() >= 0) {
      ASSERT_EQ((*plan)->received(), (*plan)->floor());
    }
    ASSERT_LE((*plan)->collectives(),
              mode == PlanMode::kPyTorch
                  ? 2 * static_cast<int>(mesh.sizes.size())
                  : 2 + (from.is_partial() ? 1 : 0));
  }
}

TEST(Plan, EveryPairOnSmallMeshesDeliversTheValue) {
  std::mt19937 random(1);
  const std::vector<MeshShape> meshes = {{{2}}, {{3}}, {{2, 2}}, {{2, 3}}};
  const std::vector<std::vector<int64_t>> shapes = {{},     {5},    {4, 6},
                                                    {3, 5}, {1, 4}, {0, 3}};
  int pairs = 0;
  for (const MeshShape& mesh : meshes)
    for (const std::vector<int64_t>& shape : shapes) {
      const auto texts = sequences(
          placements(static_cast<int>(shape.size()), true), mesh.sizes.size());
      for (const std::string& a : texts)
        for (const std::string& b : texts) {
          // A sample of the many pairs on two axes.
          if (texts.size() > 20 && random() % 5 != 0) continue;
          const auto from = Layout::parse(mesh, a), to = Layout::parse(mesh, b);
          if (!from.ok() || !to.ok()) continue;  // max beside sum
          check_pair(mesh, shape, **from, **to, random);
          if (testing::Test::HasFatalFailure()) return;
          ++pairs;
        }
    }
  EXPECT_GT(pairs, 2000);
}

TEST(Plan, RandomOrdersAndStridesDeliverTheValue) {
  std::mt19937 random(2);
  const std::vector<MeshShape> meshes = {{{2, 3, 2}}, {{2, 2, 2}}, {{2, 4}}};
  for (int round = 0; round < 1500; ++round) {
    const MeshShape& mesh = meshes[random() % meshes.size()];
    std::vector<int64_t> shape(1 + random() % 3);
    for (int64_t& extent : shape) extent = static_cast<int64_t>(random() % 9);
    const auto any = [&]() -> const Layout* {
      std::vector<Placement> placements;
      ShardOrder order;
      for (size_t a = 0; a < mesh.sizes.size(); ++a) {
        const int dim = static_cast<int>(random() % shape.size());
        const auto kind = random() % 6;
        placements.push_back(kind == 0   ? Placement::replicate()
                             : kind == 1 ? Placement::partial()
                             : kind == 2
                                 ? Placement::shard(dim, 2 + random() % 2)
                                 : Placement::shard(dim));
      }
      if (random() % 2 == 0) {
        for (int d = 0; d < static_cast<int>(shape.size()); ++d) {
          std::vector<int> axes;
          bool strided = false;
          for (size_t a = 0; a < placements.size(); ++a)
            if (placements[a].kind == Placement::Kind::kShard &&
                placements[a].dim == d) {
              axes.push_back(static_cast<int>(a));
              strided |= placements[a].factor != 1;
            }
          std::shuffle(axes.begin(), axes.end(), random);
          if (!strided && !axes.empty()) order[d] = axes;
        }
      }
      const auto made = Layout::make(mesh, placements, order);
      EXPECT_TRUE(made.ok()) << made.status();
      return *made;
    };
    check_pair(mesh, shape, *any(), *any(), random);
    if (testing::Test::HasFatalFailure()) return;
  }
}

TEST(Plan, HostsAreTold) {
  const auto by_hosts = [](absl::string_view from, absl::string_view to,
                           int64_t ranks_per_host) {
    return planned({{2, 4}}, {64, 64}, from, to,
                   {.ranks_per_host = ranks_per_host});
  };
  // Axis 1 stays inside of a host of four ranks, and axis 0 does not.
  EXPECT_EQ(by_hosts("R,S(0)", "R,R", 4)->into_host(), 0);
  // The four ranks fetch it together, each a share.
  EXPECT_EQ(by_hosts("S(0),R", "R,R", 4)->into_host(), 2048);
  EXPECT_EQ(by_hosts("S(0),R", "R,R", 8)->into_host(), 0);
  EXPECT_EQ(by_hosts("R,S(0)", "R,R", 4)->price(),
            by_hosts("R,S(0)", "R,R", 0)->price());
  EXPECT_EQ(by_hosts("S(0),R", "R,R", 8)->price(),
            by_hosts("S(0),R", "R,R", 0)->price());
  EXPECT_GT(by_hosts("S(0),R", "R,R", 4)->price(),
            by_hosts("S(0),R", "R,R", 0)->price());
}

// Elements that a host lacks of what its ranks need together; no plan gets less
// into it.
int64_t host_floor(const Plan& plan, int64_t ranks_per_host) {
  const Regions from(plan.source(), plan.shape()),
      to(plan.target(), plan.shape());
  int64_t most = 0;
  for (int64_t first = 0; first < plan.source().ranks();
       first += ranks_per_host) {
    std::vector<bool> lacks;
    const auto mark = [&](const Regions& regions, bool value) {
      for (int64_t rank = first; rank < first + ranks_per_host; ++rank)
        each_cell(regions, plan.shape(), rank, [&](int64_t i) {
          const auto at = static_cast<size_t>(i);
          if (lacks.size() <= at) lacks.resize(at + 1, false);
          lacks[at] = value;
        });
    };
    mark(to, true);
    mark(from, false);
    most =
        std::max<int64_t>(most, std::count(lacks.begin(), lacks.end(), true));
  }
  return most;
}

TEST(Plan, LittleGoesFromHostToHost) {
  for (const std::string& a : sequences(placements(2, false), 2))
    for (const std::string& b : sequences(placements(2, false), 2)) {
      const PlanOptions by_hosts = {.ranks_per_host = 8};
      const PlanRef small = planned({{8, 8}}, {64, 64}, a, b, by_hosts);
      const PlanRef plan = planned({{8, 8}}, {16384, 16384}, a, b, by_hosts);
      EXPECT_LE(static_cast<double>(plan->into_host()),
                1.15 * 65536 * static_cast<double>(host_floor(*small, 8)))
          << plan->text();
    }
  // Each host reduces its own values first: it sends a sum for each element,
  // and gets seven.
  for (const char* const to : {"S(0),S(0)", "S(0),R", "S(1),S(0)", "R,R"}) {
    const PlanRef plan =
        planned({{8, 8}}, {16384, 16384}, "P,P", to, {.ranks_per_host = 8});
    EXPECT_LE(plan->into_host(), int64_t{7} * 16384 * 16384) << plan->text();
    EXPECT_LE(plan->collectives(), 2) << plan->text();
  }
  EXPECT_EQ(
      planned({{8, 8}}, {16384, 16384}, "P,P", "R,R", {.ranks_per_host = 8})
          ->text(),
      "plan 1 mesh=[8,8] shape=[16384,16384] item=4 mode=fastest "
      "cap=16777216\n"
      "src=(P(sum),P(sum)) dst=(R,R)\n"
      "1 all_reduce g=[0,1] op=sum form=2level near=[1] recv=528482304 "
      "max=268435456\n"
      "= collectives=1 recv=528482304 peak=536870912 node=1879048192\n");
}

// Plans in two levels deliver what others do.
TEST(Plan, EveryPairByHostsDeliversTheValue) {
  std::mt19937 random(6);
  const MeshShape mesh{{2, 3}};
  for (const std::vector<int64_t>& shape :
       std::vector<std::vector<int64_t>>{{12, 6}, {7, 5}, {9}, {0, 3}})
    for (const std::string& a :
         sequences(placements(static_cast<int>(shape.size()), true), 2))
      for (const std::string& b :
           sequences(placements(static_cast<int>(shape.size()), true), 2)) {
        const auto from = Layout::parse(mesh, a), to = Layout::parse(mesh, b);
        if (!from.ok() || !to.ok()) continue;
        for (const PlanMode mode :
             {PlanMode::kFastest, PlanMode::kFewestBytes}) {
          const auto plan = make_plan(shape, 8, **from, **to,
                                      {.mode = mode, .ranks_per_host = 3});
          if (!plan.ok()) continue;
          SCOPED_TRACE((*plan)->text());
          const Parts given = random_parts(**from, shape, random);
          ASSERT_EQ(joined(run(**plan, given), **to, shape),
                    joined(given, **from, shape));
        }
      }
}

// A plan that keeps to the cap wins, and without one the best is taken.
// Prices decide: a collective that costs nothing to begin is worth two levels.
TEST(Plan, FollowsThePrices) {
  const MeshShape mesh{{3, 2}};
  const Layout& from = **Layout::parse(mesh, "S(0),S(0)");
  const Layout& to = **Layout::parse(mesh, "R,R");
  const auto plan_at = [&](const PlanPrices& prices) {
    return *make_plan({60, 34}, 8, from, to,
                      {.ranks_per_host = 2, .prices = prices});
  };
  const PlanRef table = plan_at({}), cheap = plan_at({.begin = 1}),
                dear = plan_at({.begin = 1'000'000});
  EXPECT_LT(cheap->price(), table->price());
  EXPECT_LT(table->price(), dear->price());
  const auto has_levels = [](const PlanRef& plan) {
    return std::any_of(plan->steps().begin(), plan->steps().end(),
                       [](const PlanStep& step) { return !step.near.empty(); });
  };
  EXPECT_TRUE(has_levels(cheap)) << cheap->text();
  EXPECT_FALSE(has_levels(dear)) << dear->text();
  for (const int64_t price : {int64_t{0}, int64_t{1} << 40})
    EXPECT_EQ(error_reason(
                  make_plan({60, 34}, 8, from, to, {.prices = {.copy = price}})
                      .status()),
              Reason::kInvalidArgument);
}

TEST(Plan, TheCapPrefersPlansWithoutMuchInBetween) {
  const auto capped = [](int64_t bytes) {
    return planned({{2, 4}}, {8, 6}, "R,P(sum)", "R,R",
                   {.mode = PlanMode::kFewestBytes, .cap_bytes = bytes});
  };
  const PlanRef free = capped(1 << 20), tight = capped(1);
  EXPECT_GT(free->peak(), 96) << "a share of the sum lies in between";
  EXPECT_EQ(tight->peak(), 96) << tight->text();
  EXPECT_GT(tight->received(), free->received());
  // The reduction and the exchange need memory in between in any case.
  EXPECT_EQ(
      planned({{2, 4}}, {8, 6}, "P(sum),S(0)", "S(0),S(0)", {.cap_bytes = 1})
          ->peak(),
      24);
}

TEST(Plan, RefusesBadArguments) {
  const MeshShape mesh{{2}};
  const Layout &cut = layout(mesh, "S(1)"), &whole = layout(mesh, "R");
  const auto reason = [](const absl::StatusOr<PlanRef>& plan) {
    return plan.ok() ? Reason::kNone : error_info(plan.status())->reason;
  };
  EXPECT_EQ(reason(make_plan({4}, 4, cut, whole)), Reason::kPlacement);
  EXPECT_EQ(reason(make_plan({4, -2}, 4, cut, whole)),
            Reason::kInvalidArgument);
  EXPECT_EQ(reason(make_plan({4, 2}, 0, cut, whole)), Reason::kInvalidArgument);
  EXPECT_EQ(reason(make_plan({INT64_MAX, 2}, 4, cut, whole)),
            Reason::kInvalidArgument);
  EXPECT_EQ(reason(make_plan({4, 2}, 4, cut, layout({{3}}, "R"))),
            Reason::kMeshMismatch);
  EXPECT_EQ(reason(make_plan({4, 2}, 4, cut, whole, {.cap_bytes = 0})),
            Reason::kInvalidArgument);
}

// A reduction of several axes at once counts the largest of uneven pieces for
// every rank. A way of steps on one axis each may then receive less.
TEST(Plan, FewestBytesOfUnevenPieces) {
  struct Case {
    MeshShape mesh;
    std::vector<int64_t> shape;
    const char *from, *to;
    int64_t shortest;
  };
  const Case cases[] = {
      {{{2, 2}}, {6, 3, 3}, "P(max),P(max)", "S(2),R", 63},
      {{{2, 2}}, {6, 7}, "P(max),P(max)", "R,S(1)", 45},
      {{{2, 3, 2}}, {6, 7}, "P,P,P", "S(1),P,S(0)", 33},
      // A move to even pieces before the reduction.
      {{{2, 3}}, {4, 2, 7}, "S(2),P", "S(0),R", 53},
      {{{2, 3}}, {7, 5}, "P,S(0)", "S(1),S(1) order=1:[1,0]", 15},
  };
  for (const Case& one : cases) {
    const auto from = Layout::parse(one.mesh, one.from);
    const auto to = Layout::parse(one.mesh, one.to);
    ASSERT_TRUE(from.ok() && to.ok());
    const PlanRef plan = *make_plan(one.shape, 8, **from, **to,
                                    {.mode = PlanMode::kFewestBytes});
    EXPECT_EQ(plan->received(), one.shortest) << plan->text();
  }
}

}  // namespace
}  // namespace distwrap::layout
