// Redistribution with data, over every backend, against the simulation of
// plans.
#include "distwrap/redistribute.h"

#include "distwrap/distwrap.h"
#include "distwrap/memory.h"
#include "host_backends.h"
#include "ranks/hook_diary.h"
#include "ranks/rank_threads.h"
#include "unit/layout/placement_texts.h"
#include "unit/layout/simulated_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace distwrap {
namespace {

using layout::Parts;
using layout::sequences;
using ::testing::HasSubstr;

// The parts of all ranks: ranks that differ on replicated axes hold equal ones.
Parts given_parts(const Layout& layout, absl::Span<const int64_t> shape) {
  Parts parts;
  for (int64_t rank = 0; rank < layout.ranks(); ++rank) {
    int64_t seed = 1;
    for (size_t a = 0; a < layout.placements().size(); ++a)
      if (layout.placements()[a].kind == Placement::Kind::kPartial)
        seed = seed * 7 + layout.coordinate(rank)[a];
    std::mt19937 random(static_cast<uint32_t>(seed));
    int64_t count = 1;
    for (const int64_t extent : shape) count *= extent;
    std::vector<double> whole(static_cast<size_t>(count));
    for (double& one : whole) one = static_cast<double>(random() % 5);
    parts.push_back(
        layout::cut(whole, layout, shape)[static_cast<size_t>(rank)]);
  }
  return parts;
}

template <class T>
void check(const DeviceMesh& mesh, absl::Span<const int64_t> shape,
           const Layout& from, const Layout& to,
           const RedistributeOptions& options) {
  const auto plan =
      make_plan(shape, sizeof(T), from, to,
                {.mode = options.mode, .cap_bytes = options.cap_bytes});
  if (!plan.ok()) return;  // a partial target that is refused
  SCOPED_TRACE((*plan)->text());
  const Parts given = given_parts(from, shape);
  const Parts expected = layout::run(**plan, given);
  const auto me = static_cast<size_t>(mesh.rank());
  std::vector<T> in(given[me].begin(), given[me].end());
  const std::vector<T> before = in;
  // The target lies between guards and begins as something else.
  std::vector<T> out(expected[me].size() + 2, static_cast<T>(99));
  const auto count = static_cast<int64_t>(expected[me].size());
  const absl::Status status =
      redistribute(mesh, TensorView(out.data() + 1, count), to,
                   TensorView(static_cast<const T*>(in.data()),
                              static_cast<int64_t>(in.size())),
                   from, shape, options);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(in, before);
  ASSERT_EQ(out.front(), static_cast<T>(99));
  ASSERT_EQ(out.back(), static_cast<T>(99));
  for (int64_t i = 0; i < count; ++i)
    ASSERT_EQ(out[static_cast<size_t>(i) + 1],
              static_cast<T>(expected[me][static_cast<size_t>(i)]))
        << "element " << i;
}

class Redistribute : public ::testing::TestWithParam<std::string> {};

// Calls `body` on rank 0 of two that have redistributed once; rank 1 does not
// come any more.
void without_rank_1(
    const std::string& backend,
    const std::function<void(const DeviceMesh&, const Layout& rows,
                             const Layout& columns)>& body) {
  testing::run_ranks(2, {.backend = backend}, [&](Session& session) {
    bind_session(session);
    const MeshShape shape{{2}};
    const auto mesh = DeviceMesh::create(shape);
    ASSERT_TRUE(mesh.ok()) << mesh.status();
    const Layout& rows = **Layout::parse(shape, "S(0)");
    const Layout& columns = **Layout::parse(shape, "S(1)");
    const std::vector<float> in(8, 1);
    std::vector<float> out(8);
    ASSERT_TRUE(redistribute(*mesh, TensorView(out), columns, TensorView(in),
                             rows, {4, 4})
                    .ok());
    if (session.rank() == 0) body(*mesh, rows, columns);
  });
}

TEST_P(Redistribute, EveryPairOfLayoutsOnSmallMeshes) {
  struct Case {
    MeshShape mesh;
    std::vector<int64_t> shape;
  };
  const Case cases[] = {{{{2}}, {5, 4}}, {{{3}}, {7}}, {{{2, 2}}, {4, 6}}};
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
          // Each backend takes a sample of the many pairs on two axes.
          if (all.size() > 10 && random() % 4 != 0) continue;
          const auto from = Layout::parse(one.mesh, a);
          const auto to = Layout::parse(one.mesh, b);
          if (!from.ok() || !to.ok()) continue;
          check<double>(*mesh, one.shape, **from, **to, {});
          check<int32_t>(*mesh, one.shape, **from, **to,
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
    check<uint8_t>(*mesh, tensor, rows, columns, {});
    check<int16_t>(*mesh, tensor, columns, rows, {});
    check<float>(*mesh, tensor, rows, **Layout::parse(shape, "R"), {});
    check<int64_t>(*mesh, tensor, **Layout::parse(shape, "P"), columns, {});
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
              check<double>(*mesh, {13, 26, 41}, from, to, {});
              if (::testing::Test::HasFatalFailure()) return;
            }
        });
  }
}

// A gather of strided pieces packs nothing, so that the cap does not matter.
TEST(RedistributeMemory, AGatherOfStridedPiecesIsOneCall) {
  testing::run_ranks(2, {.backend = "shm"}, [&](Session& session) {
    bind_session(session);
    const MeshShape shape{{2}};
    const auto mesh = DeviceMesh::create(shape);
    ASSERT_TRUE(mesh.ok()) << mesh.status();
    const auto group = mesh->group_along({0});
    ASSERT_TRUE(group.ok()) << group.status();
    testing::Diary diary;
    const auto hook = add_hook(*group, testing::writing(diary));
    check<double>(*mesh, {100, 103}, **Layout::parse(shape, "S(1)"),
                  **Layout::parse(shape, "R"), {.cap_bytes = 4096});
    EXPECT_EQ(diary.take().size() / 2, 1u);
  });
}

// Memory of the backend is read where it lies, also by ranks without any.
TEST(RedistributeMemory, StridedPiecesOfTheBackendsMemory) {
  testing::run_ranks(3, {.backend = "shm"}, [&](Session& session) {
    bind_session(session);
    const MeshShape shape{{3}};
    const auto mesh = DeviceMesh::create(shape);
    ASSERT_TRUE(mesh.ok()) << mesh.status();
    constexpr int64_t kRows = 99, kColumns = 301;
    const int64_t matrix[] = {kRows, kColumns};
    const Layout& rows = **Layout::parse(shape, "S(0)");
    const Layout& columns = **Layout::parse(shape, "S(1)");
    const auto allocator = get_mem_allocator();
    ASSERT_TRUE(allocator.ok()) << allocator.status();
    const int64_t mine = rows.local_shape(matrix, mesh->rank())->at(0);
    const int64_t wide = columns.local_shape(matrix, mesh->rank())->at(1);
    const auto memory = allocator->allocate(kRows * kColumns * 8);
    ASSERT_TRUE(memory.ok()) << memory.status();
    std::vector<double> own(static_cast<size_t>(mine * kColumns));
    // All ranks, some and none have their part there.
    for (int lenders = 0; lenders < 4; ++lenders) {
      double* const in = session.rank() < lenders
                             ? static_cast<double*>(memory->data())
                             : own.data();
      const auto first = static_cast<double>(33 * session.rank());
      for (int64_t i = 0; i < mine * kColumns; ++i)
        in[i] = 1000 * lenders + first * kColumns + static_cast<double>(i);
      std::vector<double> out(static_cast<size_t>(kRows * wide));
      ASSERT_TRUE(redistribute(*mesh, TensorView(out), columns,
                               TensorView(in, mine * kColumns), rows, matrix)
                      .ok());
      const int64_t left = std::min(int64_t{session.rank()} * 101, kColumns);
      for (int64_t i = 0; i < kRows; ++i)
        for (int64_t j = 0; j < wide; ++j)
          ASSERT_EQ(
              out[static_cast<size_t>(i * wide + j)],
              1000 * lenders + static_cast<double>(i * kColumns + left + j))
              << i << ", " << j;
      // Gathered, too: the parts of all ranks' columns.
      double* const strip = session.rank() < lenders
                                ? static_cast<double*>(memory->data())
                                : out.data();
      std::copy(out.begin(), out.end(), strip);
      std::vector<double> all(static_cast<size_t>(kRows * kColumns));
      ASSERT_TRUE(redistribute(*mesh, TensorView(all),
                               **Layout::parse(shape, "R"),
                               TensorView(strip, kRows * wide), columns, matrix)
                      .ok());
      for (size_t i = 0; i < all.size(); ++i)
        ASSERT_EQ(all[i], 1000 * lenders + static_cast<double>(i)) << i;
    }
  });
}

// Packed blocks keep to the cap, so steps go in rounds.
TEST_P(Redistribute, InRoundsUnderACap) {
  testing::run_ranks(3, {.backend = GetParam()}, [&](Session& session) {
    bind_session(session);
    const MeshShape shape{{3}};
    const auto mesh = DeviceMesh::create(shape);
    ASSERT_TRUE(mesh.ok()) << mesh.status();
    const std::vector<std::string> texts = {"R",    "P(sum)",  "S(0)",
                                            "S(1)", "SS(1,2)", "S(2)"};
    for (const std::string& a : texts)
      for (const std::string& b : texts)
        check<double>(*mesh, {7, 5, 4}, **Layout::parse(shape, a),
                      **Layout::parse(shape, b), {.cap_bytes = 128});
    check<int16_t>(*mesh, {3, 7, 4}, **Layout::parse(shape, "S(1)"),
                   **Layout::parse(shape, "S(2)"), {.cap_bytes = 1});
  });
}

TEST(RedistributeMemory, AStepHasAsManyRoundsAsTheCapAsksFor) {
  testing::run_ranks(2, {.backend = "shm"}, [&](Session& session) {
    bind_session(session);
    const MeshShape shape{{2}};
    const auto mesh = DeviceMesh::create(shape);
    ASSERT_TRUE(mesh.ok()) << mesh.status();
    const auto calls = [&](const std::string& to, int64_t cap_bytes) {
      const Layout& columns = **Layout::parse(shape, "S(1)");
      const Layout& target = **Layout::parse(shape, to);
      const std::vector<float> in(128, 1);
      std::vector<float> out(to == "R" ? 256 : 128);
      testing::Diary diary;
      const auto group = mesh->group_along({0});
      EXPECT_TRUE(group.ok());
      const auto hook = add_hook(*group, testing::writing(diary));
      EXPECT_TRUE(redistribute(*mesh, TensorView(out), target, TensorView(in),
                               columns, {16, 16}, {.cap_bytes = cap_bytes})
                      .ok());
      return diary.take().size() / 2;
    };
    // 128 elements are packed, and as many are unpacked: 1 KiB.
    EXPECT_EQ(calls("S(0)", 1024), 1u);
    EXPECT_EQ(calls("S(0)", 1023), 2u);
    EXPECT_EQ(calls("S(0)", 64), 16u);
    // The rows of a part are no packed memory of a gather's result.
    EXPECT_EQ(calls("R", 256), 6u);
  });
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
        check<double>(*mesh, tensor, **from, **to, {});
        if (random() % 3 == 0)
          check<double>(*mesh, tensor, **from, **to, {.cap_bytes = 4096});
        if (::testing::Test::HasFatalFailure()) return;
      }
    using Kind = PlanStep::Kind;
    for (const Kind kind : {Kind::kReduceScatter, Kind::kAllReduce,
                            Kind::kExchange, Kind::kAllGather})
      EXPECT_GT(in_levels[static_cast<int>(kind)], 0) << plan_step_name(kind);
  });
}

// Several tensors at once: each step is one collective for those with equal
// steps.
TEST_P(Redistribute, ManyTensorsMoveTogether) {
  const std::vector<std::vector<int64_t>> shapes = {{5, 4},   {0, 3}, {2, 2},
                                                    {64, 33}, {1, 1}, {7, 9}};
  const std::vector<std::string> texts = {"R", "P(sum)", "S(0)", "S(1)"};
  testing::run_ranks(4, {.backend = GetParam()}, [&](Session& session) {
    bind_session(session);
    const MeshShape shape{{2, 2}};
    const auto mesh = DeviceMesh::create(shape);
    ASSERT_TRUE(mesh.ok()) << mesh.status();
    const auto me = static_cast<size_t>(mesh->rank());
    for (const std::string& a : sequences(texts, 2))
      for (const std::string& b : sequences(texts, 2)) {
        const auto from = Layout::parse(shape, a), to = Layout::parse(shape, b);
        if (!from.ok() || !to.ok()) continue;
        std::vector<std::vector<float>> ins, outs, expected;
        bool refused = false;
        for (const std::vector<int64_t>& one : shapes) {
          const auto plan = make_plan(one, 4, **from, **to);
          refused = refused || !plan.ok();
          if (refused) break;
          const Parts given = given_parts(**from, one);
          const Parts wanted = layout::run(**plan, given);
          ins.emplace_back(given[me].begin(), given[me].end());
          expected.emplace_back(wanted[me].begin(), wanted[me].end());
          outs.emplace_back(wanted[me].size(), 99.0F);
        }
        if (refused) continue;
        std::vector<TensorView> out_views, in_views;
        for (size_t t = 0; t < shapes.size(); ++t) {
          in_views.emplace_back(std::as_const(ins[t]));
          out_views.emplace_back(outs[t]);
        }
        const absl::Status status =
            redistribute_many(*mesh, out_views, **to, in_views, **from, shapes);
        ASSERT_TRUE(status.ok()) << a << "->" << b << ": " << status;
        ASSERT_EQ(outs, expected) << a << "->" << b;
      }
  });
}

// Large tensors among small ones, whole and uneven, in some places with one
// that overlaps another.
TEST_P(Redistribute, LargeTensorsAmongSmallOnes) {
  const std::vector<std::vector<int64_t>> shapes = {
      {9, 4}, {256, 512}, {4, 4}, {301, 257}, {256, 512}, {3, 300}};
  testing::run_ranks(3, {.backend = GetParam()}, [&](Session& session) {
    bind_session(session);
    const MeshShape shape{{3}};
    const auto mesh = DeviceMesh::create(shape);
    ASSERT_TRUE(mesh.ok()) << mesh.status();
    const Layout& rows = **Layout::parse(shape, "S(0)");
    const Layout& columns = **Layout::parse(shape, "S(1)");
    std::vector<std::vector<float>> ins, outs, expected;
    for (const std::vector<int64_t>& one : shapes) {
      const auto part = [&](const Layout& layout) {
        const auto local = layout.local_shape(one, mesh->rank());
        const auto first = layout.offset(one, mesh->rank());
        std::vector<float> values;
        for (int64_t i = 0; i < (*local)[0]; ++i)
          for (int64_t k = 0; k < (*local)[1]; ++k)
            values.push_back(static_cast<float>(((*first)[0] + i) * one[1] +
                                                (*first)[1] + k));
        return values;
      };
      ins.push_back(part(rows));
      expected.push_back(part(columns));
      outs.emplace_back(expected.back().size(), -1.0F);
    }
    std::vector<TensorView> out_views, in_views;
    for (size_t t = 0; t < shapes.size(); ++t) {
      in_views.emplace_back(std::as_const(ins[t]));
      out_views.emplace_back(outs[t]);
    }
    for (int call = 0; call < 3; ++call) {
      for (std::vector<float>& one : outs) one.assign(one.size(), -1);
      const absl::Status status =
          redistribute_many(*mesh, out_views, columns, in_views, rows, shapes);
      ASSERT_TRUE(status.ok()) << status;
      ASSERT_EQ(outs, expected);
    }
    // The result of a tensor that goes alone lies in the source of another one.
    out_views[4] = TensorView(ins[1].data(), out_views[4].count());
    for (std::vector<float>& one : outs) one.assign(one.size(), -1);
    EXPECT_EQ(error_reason(redistribute_many(*mesh, out_views, columns,
                                             in_views, rows, shapes)),
              Reason::kInvalidArgument);
    EXPECT_EQ(outs[1][0], -1) << "something was sent";
  });
}

// Redistributions that do not wait run in the order in which they are started,
// and one that waits comes behind them.
TEST_P(Redistribute, WithoutWaiting) {
  testing::run_ranks(3, {.backend = GetParam()}, [&](Session& session) {
    bind_session(session);
    const MeshShape shape{{3}};
    const auto mesh = DeviceMesh::create(shape);
    ASSERT_TRUE(mesh.ok()) << mesh.status();
    const Layout& rows = **Layout::parse(shape, "S(0)");
    const Layout& columns = **Layout::parse(shape, "S(1)");
    const Layout& whole = **Layout::parse(shape, "R");
    const std::vector<int64_t> tensor = {7, 5};
    std::vector<double> values(35);
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = static_cast<double>(i);
    const auto me = static_cast<size_t>(mesh->rank());
    const auto part = [&](const Layout& layout) {
      return layout::cut(values, layout, tensor)[me];
    };
    const std::vector<double> by_rows = part(rows), by_columns = part(columns);
    std::vector<double> first(by_columns.size()), second(35),
        back(by_rows.size()), last(35);
    std::atomic<int> called{0};
    const auto started = [&](absl::StatusOr<Work> work) {
      EXPECT_TRUE(work.ok()) << work.status();
      work->on_done([&](const absl::Status& status) {
        EXPECT_TRUE(status.ok()) << status;
        ++called;
      });
      return *work;
    };
    const Work one = started(redistribute_async(
        *mesh, TensorView(first), columns, TensorView(by_rows), rows, tensor));
    const Work two = started(redistribute_async(
        *mesh, TensorView(second), whole, TensorView(by_rows), rows, tensor));
    // Reads what the first one writes.
    const Work three = started(redistribute_async(
        *mesh, TensorView(back), rows, TensorView(first), columns, tensor));
    ASSERT_TRUE(redistribute(*mesh, TensorView(last), whole, TensorView(back),
                             rows, tensor)
                    .ok());
    EXPECT_EQ(last, values);
    EXPECT_TRUE(wait_all({one, two, three}).ok());
    EXPECT_EQ(first, by_columns);
    EXPECT_EQ(second, values);
    EXPECT_EQ(back, by_rows);
    ASSERT_EQ(two.result().size(), 1U);
    EXPECT_EQ(two.result()[0].data(), second.data());
    while (called.load() != 3) std::this_thread::yield();
    // Bad arguments are refused at once.
    const auto refused = redistribute_async(*mesh, TensorView(first), whole,
                                            TensorView(by_rows), rows, tensor);
    EXPECT_EQ(error_reason(refused.status()), Reason::kLayoutMismatch);
  });
}

TEST_P(Redistribute, WithoutWaitingALateRankIsNamed) {
  without_rank_1(GetParam(), [](const DeviceMesh& mesh, const Layout& rows,
                                const Layout& columns) {
    std::vector<float> in(8, 1), out(8, 7);
    const auto work =
        redistribute_async(mesh, TensorView(out), columns, TensorView(in), rows,
                           {4, 4}, {.timeout = absl::Milliseconds(200)});
    ASSERT_TRUE(work.ok()) << work.status();
    EXPECT_EQ(error_reason(work->wait(absl::Milliseconds(1))),
              Reason::kWaitExpired);
    const absl::Status status = work->wait();
    EXPECT_EQ(error_reason(status), Reason::kTimedOut) << status;
    EXPECT_EQ(work->state(), WorkState::kTimedOut);
  });
}

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

// A mesh that remembers moves to itself and to another one ends with its last
// handle.
TEST(RedistributeMemory, MeshesKeepEachOtherNot) {
  testing::run_ranks(2, {.backend = "shm"}, [&](Session& session) {
    bind_session(session);
    const MeshShape shape{{2}};
    const Layout& rows = **Layout::parse(shape, "S(0)");
    DeviceMesh one = *DeviceMesh::create(shape);
    DeviceMesh other = *DeviceMesh::create(shape, {1, 0});
    std::vector<float> in(4, 1), out(4);
    for (const DeviceMesh& from : {one, other})
      for (const DeviceMesh& to : {one, other})
        ASSERT_TRUE(redistribute_between(to, TensorView(out), rows, from,
                                         TensorView(in), rows, {8})
                        .ok());
    const std::weak_ptr<mesh::MeshState> first = one.state(),
                                         second = other.state();
    one = other = DeviceMesh();
    EXPECT_TRUE(first.expired());
    EXPECT_TRUE(second.expired());
  });
}

// Several meshes in one world, and the groups along their axes.
TEST_P(Redistribute, MeshesHaveGroupsInTheirOrder) {
  testing::run_ranks(4, {.backend = GetParam()}, [&](Session& session) {
    bind_session(session);
    const MeshShape shape{.sizes = {2, 2}, .names = {"dp", "tp"}};
    const std::vector<int> reversed = {3, 2, 1, 0};
    const auto mesh = DeviceMesh::create(shape, reversed);
    ASSERT_TRUE(mesh.ok()) << mesh.status();
    EXPECT_EQ(mesh->rank(), 3 - session.rank());
    const int64_t row = mesh->rank() / 2;
    EXPECT_EQ(mesh->coordinate(),
              (std::vector<int64_t>{row, mesh->rank() % 2}));
    const auto tp = mesh->group({"tp"});
    ASSERT_TRUE(tp.ok()) << tp.status();
    EXPECT_EQ(tp->global_ranks(),
              (row == 0 ? std::vector<int>{3, 2} : std::vector<int>{1, 0}));
    EXPECT_EQ(*mesh->group_along({1}), *tp) << "made once";
    const auto line = (*mesh)[{"dp"}];
    ASSERT_TRUE(line.ok()) << line.status();
    EXPECT_EQ(line->shape().names, (std::vector<std::string>{"dp"}));
    EXPECT_EQ(line->rank(), row);
    // Pairs of the world are two meshes of one shape.
    const auto pair = DeviceMesh::create({{2}});
    ASSERT_TRUE(pair.ok()) << pair.status();
    EXPECT_EQ(pair->ranks().front(), session.rank() / 2 * 2);
    float x = 1;
    ASSERT_TRUE(all_reduce(TensorView(&x, 1), ReduceOp::kSum,
                           {.group = *pair->group_along({0})})
                    .ok());
    EXPECT_EQ(x, 2);
  });
}

TEST_P(Redistribute, ALateRankIsNamedWithTheStep) {
  without_rank_1(GetParam(), [](const DeviceMesh& mesh, const Layout& rows,
                                const Layout& columns) {
    std::vector<float> in(8, 1), out(8, 7);
    const absl::Status status =
        redistribute(mesh, TensorView(out), columns, TensorView(in), rows,
                     {4, 4}, {.timeout = absl::Milliseconds(200)});
    ASSERT_FALSE(status.ok());
    EXPECT_THAT(error_info(status)->label,
                HasSubstr("redistribute (S(0))->(S(1)) 1/1"));
  });
}

// Ranks that ask for different layouts make different calls, and all hear of
// it.
TEST_P(Redistribute, DifferentTargetsAreAMismatchOnAllRanks) {
  testing::run_ranks(2, {.backend = GetParam()}, [&](Session& session) {
    bind_session(session);
    const MeshShape shape{{2}};
    const auto mesh = DeviceMesh::create(shape);
    ASSERT_TRUE(mesh.ok()) << mesh.status();
    const Layout& rows = **Layout::parse(shape, "S(0)");
    const Layout& other =
        **Layout::parse(shape, session.rank() == 0 ? "S(1)" : "R");
    const std::vector<float> in(8, 1);
    std::vector<float> out(session.rank() == 0 ? 8 : 16);
    const absl::Status status =
        redistribute(*mesh, TensorView(out), other, TensorView(in), rows,
                     {4, 4}, {.timeout = absl::Seconds(20)});
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(error_info(status)->reason, Reason::kCallMismatch) << status;
  });
}

// Ranks whose first step has the same call on all its members get the error,
// too: the rank with another plan is in none of their first groups.
TEST_P(Redistribute, AnotherPlanOfOneRankIsAMismatchInAllGroups) {
  testing::run_ranks(4, {.backend = GetParam()}, [&](Session& session) {
    bind_session(session);
    const MeshShape shape{{2, 2}};
    const auto mesh = DeviceMesh::create(shape);
    ASSERT_TRUE(mesh.ok()) << mesh.status();
    const Layout& from = **Layout::parse(shape, "P,S(0)");
    const auto go = [&](const char* to) {
      const std::vector<float> in(32, 1);
      std::vector<float> out(16);
      return redistribute(*mesh, TensorView(out), **Layout::parse(shape, to),
                          TensorView(in), from, {8, 8},
                          {.timeout = absl::Seconds(20)});
    };
    // The groups are there.
    ASSERT_TRUE(go("S(0),S(0)").ok());
    ASSERT_TRUE(go("S(1),S(1)").ok());
    // An engine that does not compare calls may end one before the board tells.
    const int64_t began = Deadline::now_ns();
    absl::Status status;
    for (int i = 0; i < 20 && status.ok(); ++i)
      status = go(session.rank() == 3 ? "S(1),S(1)" : "S(0),S(0)");
    EXPECT_EQ(error_reason(status), Reason::kCallMismatch) << status;
    EXPECT_LT(absl::Nanoseconds(Deadline::now_ns() - began), absl::Seconds(10));
  });
}

// Threads that want one group for the first time get the same one.
TEST(RedistributeThreads, MakeAGroupOnce) {
  testing::run_ranks(2, {.backend = "shm"}, [&](Session& session) {
    bind_session(session);
    const auto mesh = DeviceMesh::create({{2}});
    ASSERT_TRUE(mesh.ok()) << mesh.status();
    std::vector<absl::StatusOr<Group>> groups(4);
    std::vector<std::thread> threads;
    for (absl::StatusOr<Group>& group : groups)
      threads.emplace_back([&] {
        bind_session(session);
        group = mesh->group_along({0});
      });
    for (std::thread& thread : threads) thread.join();
    for (const absl::StatusOr<Group>& group : groups) {
      ASSERT_TRUE(group.ok()) << group.status();
      EXPECT_EQ(*group, *groups[0]);
    }
  });
}

TEST(RedistributeArguments, AreRefusedBeforeAnythingIsSent) {
  testing::run_ranks(2, {.backend = "shm"}, [&](Session& session) {
    bind_session(session);
    const MeshShape shape{{2}};
    const auto reason = [](const absl::Status& status) {
      return status.ok() ? Reason::kNone : error_info(status)->reason;
    };
    EXPECT_EQ(reason(DeviceMesh::create({{3}}).status()), Reason::kMeshShape);
    EXPECT_EQ(reason(DeviceMesh::create(shape, {0, 0}).status()),
              Reason::kMeshShape);
    EXPECT_EQ(reason(DeviceMesh::create(shape, {0, 2}).status()),
              Reason::kMeshShape);
    EXPECT_EQ(reason(DeviceMesh::create({{2, 0}}).status()),
              Reason::kMeshShape);
    const auto mesh = DeviceMesh::create(shape);
    ASSERT_TRUE(mesh.ok());
    EXPECT_EQ(reason(mesh->group_along({1}).status()), Reason::kPlacement);
    EXPECT_EQ(reason(mesh->group({"x"}).status()), Reason::kPlacement);
    const Layout& rows = **Layout::parse(shape, "S(0)");
    const Layout& whole = **Layout::parse(shape, "R");
    std::vector<float> in(4, 1), out(8);
    const auto call = [&](TensorView to, TensorView from) {
      return reason(redistribute(*mesh, to, whole, from, rows, {8}));
    };
    const TensorView good(in), target(out);
    EXPECT_EQ(call(TensorView(out.data(), 7), good), Reason::kLayoutMismatch);
    EXPECT_EQ(call(target, TensorView(in.data(), 3)), Reason::kLayoutMismatch);
    EXPECT_EQ(call(target.as_read_only(), good), Reason::kInvalidArgument);
    EXPECT_EQ(call(target, TensorView(out.data(), 4)),
              Reason::kInvalidArgument);
    std::vector<int32_t> other(8);
    EXPECT_EQ(call(TensorView(other), good), Reason::kInvalidArgument);
    EXPECT_EQ(reason(redistribute(*mesh, target, **Layout::parse({{1}}, "R"),
                                  good, rows, {8})),
              Reason::kMeshMismatch);
    EXPECT_EQ(
        reason(redistribute(DeviceMesh(), target, whole, good, rows, {8})),
        Reason::kMeshMismatch);
    const auto plan = make_plan({8}, 8, rows, whole);
    EXPECT_EQ(
        reason(Redistribution::prepare(*mesh, *plan, DType::kF32).status()),
        Reason::kInvalidArgument);
    EXPECT_EQ(reason(Redistribution().run(target, good)),
              Reason::kInvalidArgument);
    const auto many = [&](std::vector<TensorView> to,
                          std::vector<TensorView> from) {
      return reason(
          redistribute_many(*mesh, to, whole, from, rows, {{8}, {2}}));
    };
    std::vector<float> small(1, 1), more(2);
    const TensorView source(small), sink(more);
    EXPECT_EQ(many({target}, {good, source}), Reason::kInvalidArgument);
    EXPECT_EQ(many({target, target.flat(0, 2)}, {good, source}),
              Reason::kInvalidArgument);
    EXPECT_EQ(many({target, sink.flat(0, 1)}, {good, source}),
              Reason::kLayoutMismatch);
    EXPECT_EQ(many({target, sink}, {good, source}), Reason::kNone);
    const auto other_plan = make_plan({8}, 4, whole, rows);
    const auto this_plan = make_plan({8}, 4, rows, whole);
    EXPECT_EQ(reason(Redistribution::prepare_many(
                         *mesh, {*this_plan, *other_plan}, DType::kF32)
                         .status()),
              Reason::kInvalidArgument);
    EXPECT_EQ(
        reason(Redistribution::prepare_many(*mesh, {}, DType::kF32).status()),
        Reason::kInvalidArgument);
    // The mesh has prepared this move on itself, and there is no other mesh.
    EXPECT_EQ(reason(redistribute_between(DeviceMesh(), target, whole, *mesh,
                                          good, rows, {8})),
              Reason::kMeshMismatch);
    // A rank that is in neither mesh.
    const auto alone = DeviceMesh::create({{1}}, {1 - session.rank()});
    const Layout& one = **Layout::parse({{1}}, "R");
    EXPECT_EQ(reason(redistribute_between(*alone, target, one, *alone, good,
                                          one, {8})),
              Reason::kMeshMismatch);
    EXPECT_EQ(call(target, good), Reason::kNone);
  });
}

INSTANTIATE_TEST_SUITE_P(
    Backends, Redistribute,
    ::testing::ValuesIn(testing::host_backends<std::string>()),
    testing::name_of_backend);

}  // namespace
}  // namespace distwrap
