// Redistribution with data, over every backend, against the simulation of
// plans: pairs of layouts.
#include "host_backends.h"
#include "ranks/redistribute_parts.h"
#include "unit/layout/placement_texts.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <utility>
#include <vector>

namespace distwrap {
namespace {

using layout::sequences;

// Over shm all pairs; the other backends take a sample of the many on two axes.
TEST_P(Redistribute, EveryPairOfLayoutsOnSmallMeshes) {
  struct Case {
    MeshShape mesh;
    std::vector<int64_t> shape;
  };
  const Case cases[] = {
      {{{2}}, {5, 4}}, {{{3}}, {7}}, {{{2, 2}}, {4, 6}}, {{{2, 3}}, {5, 7}}};
  const bool takes_all = GetParam() == "shm";
  for (const Case& one : cases) {
    std::vector<std::string> texts = {"R", "P(sum)", "P(max)", "P(avg)"};
    for (size_t d = 0; d < one.shape.size(); ++d)
      texts.push_back("S(" + std::to_string(d) + ")");
    const auto all = sequences(texts, one.mesh.sizes.size());
    int ranks = 1;
    for (const int64_t size : one.mesh.sizes) ranks *= static_cast<int>(size);
    testing::run_ranks(ranks, {.backend = GetParam()}, [&](Session& session) {
      bind_session(session);
      const auto mesh = DeviceMesh::create(one.mesh);
      ASSERT_TRUE(mesh.ok()) << mesh.status();
      ASSERT_EQ(mesh->rank(), session.rank());
      std::mt19937 random(3);
      for (const std::string& a : all)
        for (const std::string& b : all) {
          const uint32_t every = one.mesh.sizes.back() == 3 ? 16 : 4;
          if (!takes_all && all.size() > 10 && random() % every != 0) continue;
          const auto from = Layout::parse(one.mesh, a);
          const auto to = Layout::parse(one.mesh, b);
          if (!from.ok() || !to.ok()) continue;
          expect_moved<double>(*mesh, one.shape, **from, **to, {});
          expect_moved<int32_t>(*mesh, one.shape, **from, **to,
                                {.mode = PlanMode::kFewestBytes});
          if (::testing::Test::HasFatalFailure()) return;
        }
    });
  }
}

TEST_P(Redistribute, LargeUnevenPartsOfEveryWidth) {
  testing::run_ranks(3, {.backend = GetParam()}, [&](Session& session) {
    bind_session(session);
    const MeshShape shape{{3}};
    const auto mesh = DeviceMesh::create(shape);
    ASSERT_TRUE(mesh.ok()) << mesh.status();
    const std::vector<int64_t> tensor = {203, 57};
    const Layout& rows = **Layout::parse(shape, "S(0)");
    const Layout& columns = **Layout::parse(shape, "S(1)");
    expect_moved<uint8_t>(*mesh, tensor, rows, columns, {});
    expect_moved<int16_t>(*mesh, tensor, columns, rows, {});
    expect_moved<float>(*mesh, tensor, rows, **Layout::parse(shape, "R"), {});
    expect_moved<int64_t>(*mesh, tensor, **Layout::parse(shape, "P"), columns,
                          {});
  });
}

// Zeros and ones of every type, which reductions leave as they are where all
// ranks have the same.
TEST_P(Redistribute, EveryElementType) {
  testing::run_ranks(2, {.backend = GetParam()}, [&](Session& session) {
    bind_session(session);
    const MeshShape shape{{2}};
    const auto mesh = DeviceMesh::create(shape);
    ASSERT_TRUE(mesh.ok()) << mesh.status();
    const std::vector<int64_t> matrix = {4, 6};
    constexpr DType kTypes[] = {
#define DW_DTYPE(index, name, enumerator, text, code, bits, storage) \
  DType::enumerator,
#include "distwrap/abi/dtypes.def"
    };
    for (const DType dtype : kTypes) {
      SCOPED_TRACE(dtype_name(dtype));
      const int64_t size = dtype_size(dtype);
      // Row-major, the first byte of each element is 1 where i + j is even.
      const auto part = [&](const Layout& layout) {
        std::vector<uint8_t> bytes;
        const auto rows = layout.indices(matrix, mesh->rank(), 0),
                   columns = layout.indices(matrix, mesh->rank(), 1);
        for (const int64_t i : *rows)
          for (const int64_t j : *columns) {
            bytes.push_back((i + j) % 2 == 0);
            bytes.resize(bytes.size() + static_cast<size_t>(size) - 1, 0);
          }
        return bytes;
      };
      for (const auto& [from_text, to_text] : {std::pair("S(0)", "S(1)"),
                                               {"S(1)", "R"},
                                               {"P(max)", "S(0)"},
                                               {"P(max)", "R"},
                                               {"R", "S(1)"}}) {
        // Floats of 8 bits are moved alone.
        const bool only_moves =
            dtype == DType::kF8E4M3FN || dtype == DType::kF8E5M2;
        if (only_moves && from_text[0] == 'P') continue;
        const Layout &from = **Layout::parse(shape, from_text),
                     &to = **Layout::parse(shape, to_text);
        const std::vector<uint8_t> in = part(from), wanted = part(to);
        std::vector<uint8_t> out(wanted.size(), 9);
        const auto view = [&](const std::vector<uint8_t>& bytes) {
          return TensorView(const_cast<uint8_t*>(bytes.data()),
                            static_cast<int64_t>(bytes.size()) / size, dtype);
        };
        const absl::Status status =
            redistribute(*mesh, view(out), to, view(in), from, matrix);
        ASSERT_TRUE(status.ok()) << from_text << to_text << status;
        ASSERT_EQ(out, wanted) << from_text << " to " << to_text;
      }
    }
  });
}

// Pieces so large that a backend may move them from where they lie to where
// they belong, with rows of all lengths, on either side and along any axes.
TEST_P(Redistribute, LargeStridedPieces) {
  for (const auto& [mesh_shape, texts] :
       {std::pair<MeshShape, std::vector<std::string>>{
            {{3}}, {"S(0)", "S(1)", "SS(1,2)", "R"}},
        {{{2, 2}}, {"S(0),S(1)", "S(1),S(2)", "S(1),R"}}}) {
    int ranks = 1;
    for (const int64_t size : mesh_shape.sizes) ranks *= static_cast<int>(size);
    testing::run_ranks(
        ranks, {.backend = GetParam()},
        [&, &mesh_shape = mesh_shape, &texts = texts](Session& s) {
          bind_session(s);
          const auto mesh = DeviceMesh::create(mesh_shape);
          ASSERT_TRUE(mesh.ok()) << mesh.status();
          for (const std::string& a : texts)
            for (const std::string& b : texts) {
              if (a == b) continue;
              const Layout& from = **Layout::parse(mesh_shape, a);
              const Layout& to = **Layout::parse(mesh_shape, b);
              expect_moved<double>(*mesh, {13, 26, 41}, from, to, {});
              if (::testing::Test::HasFatalFailure()) return;
            }
        });
  }
}

// Three hosts of two ranks: steps that span them go in two levels.
TEST(RedistributeHosts, InTwoLevels) {
  const MeshShape shape{{3, 2}};
  const std::vector<int64_t> tensor = {65, 34};
  const InitOptions hosts = {.backend = "gloo", .ranks_per_node = 2};
  testing::run_ranks(6, hosts, [&](Session& session) {
    bind_session(session);
    const auto mesh = DeviceMesh::create(shape);
    ASSERT_TRUE(mesh.ok()) << mesh.status();
    int in_levels[7] = {};
    std::mt19937 random(8);
    for (const std::string& a : sequences({"R", "P(sum)", "S(0)", "S(1)"}, 2))
      for (const std::string& b : sequences({"R", "S(0)", "S(1)"}, 2)) {
        const auto from = Layout::parse(shape, a), to = Layout::parse(shape, b);
        const auto plan =
            make_plan(tensor, 8, **from, **to, {.ranks_per_host = 2});
        ASSERT_TRUE(plan.ok()) << plan.status();
        bool has_levels = false;
        for (const PlanStep& step : (*plan)->steps())
          if (!step.near.empty()) {
            has_levels = true;
            ++in_levels[static_cast<int>(step.kind)];
          }
        if (!has_levels || random() % 2 == 0) continue;
        expect_moved<double>(*mesh, tensor, **from, **to, {});
        if (random() % 3 == 0)
          expect_moved<double>(*mesh, tensor, **from, **to,
                               {.cap_bytes = 4096});
        if (::testing::Test::HasFatalFailure()) return;
      }
    using Kind = PlanStep::Kind;
    for (const Kind kind : {Kind::kReduceScatter, Kind::kAllReduce,
                            Kind::kExchange, Kind::kAllGather})
      EXPECT_GT(in_levels[static_cast<int>(kind)], 0) << plan_step_name(kind);
  });
}

}  // namespace
}  // namespace distwrap
