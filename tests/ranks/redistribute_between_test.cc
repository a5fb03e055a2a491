// Redistribution from a mesh to another one.
#include "ranks/redistribute_parts.h"
#include "unit/layout/placement_texts.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <utility>
#include <vector>

namespace distwrap {
namespace {

using layout::Parts;
using layout::sequences;

// Between meshes that have all ranks in common, some, or none.
TEST_P(Redistribute, BetweenMeshes) {
  struct Case {
    MeshShape from_mesh, to_mesh;
    std::vector<int> from_ranks, to_ranks;
  };
  const Case cases[] = {
      {{{2, 2}}, {{3}}, {0, 1, 2, 3}, {4, 3, 1}},
      {{{2}}, {{3}}, {1, 0}, {4, 2, 3}},
      {{{3}}, {{2, 2}}, {0, 2, 4}, {4, 0, 3, 2}},
      {{{5}}, {{5}}, {0, 1, 2, 3, 4}, {4, 3, 2, 1, 0}},
  };
  const std::vector<int64_t> shape = {7, 6};
  const std::vector<std::string> texts = {"R", "P(sum)", "P(max)", "S(0)",
                                          "S(1)"};
  testing::run_ranks(5, {.backend = GetParam()}, [&](Session& session) {
    bind_session(session);
    for (const Case& one : cases) {
      const auto from_mesh = DeviceMesh::create(one.from_mesh, one.from_ranks);
      const auto to_mesh = DeviceMesh::create(one.to_mesh, one.to_ranks);
      ASSERT_TRUE(from_mesh.ok() && to_mesh.ok());
      if (from_mesh->rank() < 0 && to_mesh->rank() < 0) continue;
      std::mt19937 random(5);
      for (const std::string& a : sequences(texts, one.from_mesh.sizes.size()))
        for (const std::string& b :
             sequences(texts, one.to_mesh.sizes.size())) {
          if (random() % 5 != 0) continue;
          const auto from = Layout::parse(one.from_mesh, a);
          const auto to = Layout::parse(one.to_mesh, b);
          if (!from.ok() || !to.ok()) continue;
          // The values of the whole tensor, cut as the target cuts it, and then
          // made partial where it is.
          const auto without_partials = [](const Layout& layout) {
            std::vector<Placement> placements = layout.placements();
            for (Placement& placement : placements)
              if (placement.kind == Placement::Kind::kPartial)
                placement = Placement::replicate();
            return *Layout::make(layout.mesh(), placements);
          };
          const Layout& everywhere = **Layout::make(
              one.from_mesh,
              std::vector<Placement>((*from)->placements().size()));
          const Layout& cut = *without_partials(**to);
          const auto gather = make_plan(shape, 4, **from, everywhere);
          const auto make_partial = make_plan(shape, 4, cut, **to);
          if (!make_partial.ok()) continue;
          const Parts given = given_parts(**from, shape);
          const Parts expected = layout::run(
              **make_partial,
              layout::cut(layout::run(**gather, given)[0], cut, shape));
          std::vector<float> in, out, wanted;
          if (const int64_t me = from_mesh->rank(); me >= 0)
            in.assign(given[static_cast<size_t>(me)].begin(),
                      given[static_cast<size_t>(me)].end());
          if (const int64_t me = to_mesh->rank(); me >= 0)
            wanted.assign(expected[static_cast<size_t>(me)].begin(),
                          expected[static_cast<size_t>(me)].end());
          out.assign(wanted.size(), 99.0F);
          const absl::Status status = redistribute_between(
              *to_mesh, TensorView(out), **to, *from_mesh,
              TensorView(std::as_const(in)), **from, shape);
          ASSERT_TRUE(status.ok()) << a << "->" << b << ": " << status;
          ASSERT_EQ(out, wanted) << a << "->" << b;
        }
    }
  });
}

// Each rank gets every element once, and from itself what it has.
TEST_P(Redistribute, BetweenMeshesNothingTravelsTwice) {
  testing::run_ranks(3, {.backend = GetParam()}, [&](Session& session) {
    bind_session(session);
    const MeshShape pair{{2}}, line{{3}};
    const auto from_mesh = DeviceMesh::create(pair, {1, 2});
    const auto to_mesh = DeviceMesh::create(line, {0, 1, 2});
    ASSERT_TRUE(from_mesh.ok() && to_mesh.ok());
    std::vector<float> in(from_mesh->rank() < 0 ? 0 : 6, 1.0F), out(2, 9.0F);
    for (size_t i = 0; i < in.size(); ++i)
      in[i] = static_cast<float>(10 * session.rank()) + static_cast<float>(i);
    ASSERT_TRUE(redistribute_between(
                    *to_mesh, TensorView(out), **Layout::parse(line, "S(0)"),
                    *from_mesh, TensorView(in), **Layout::parse(pair, "R"), {6})
                    .ok());
    // Rank 0 has nothing, and asks the first of the two that have all.
    const float giver = session.rank() == 2 ? 20 : 10;
    const auto first = static_cast<float>(2 * session.rank());
    EXPECT_EQ(out, (std::vector<float>{giver + first, giver + first + 1}));
  });
}

}  // namespace
}  // namespace distwrap
