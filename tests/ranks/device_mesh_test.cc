// Meshes of ranks, and the groups along their axes.
#include "ranks/redistribute_parts.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

namespace distwrap {
namespace {

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
    // The mesh with both axes as one.
    const auto flat = mesh->flatten({"dp", "tp"}, "all");
    ASSERT_TRUE(flat.ok()) << flat.status();
    EXPECT_EQ(flat->shape(), (MeshShape{.sizes = {4}, .names = {"all"}}));
    EXPECT_EQ(flat->ranks(), reversed);
    EXPECT_EQ(mesh->flatten({"tp"})->ranks(), tp->global_ranks());
    EXPECT_EQ(error_reason(mesh->flatten({"tp", "x"}).status()),
              Reason::kPlacement);
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

// Two threads, each with a mesh of its own, whose groups were made before.
TEST_P(Redistribute, TwoThreadsWithTwoMeshes) {
  testing::run_ranks(2, {.backend = GetParam()}, [&](Session& session) {
    bind_session(session);
    const MeshShape shape{{2}};
    std::vector<DeviceMesh> meshes;
    for (int i = 0; i < 2; ++i) {
      meshes.push_back(*DeviceMesh::create(shape));
      ASSERT_TRUE(meshes.back().group_along({0}).ok());
    }
    std::vector<std::thread> threads;
    for (const DeviceMesh& mesh : meshes)
      threads.emplace_back([&] {
        bind_session(session);
        const bool first = mesh == meshes[0];
        const Layout &rows = **Layout::parse(shape, "S(0)"),
                     &other = **Layout::parse(shape, first ? "S(1)" : "R");
        for (int i = 0; i < 30 && !HasFatalFailure(); ++i) {
          expect_moved<float>(mesh, {6, 5}, rows, other, {});
          expect_moved<float>(mesh, {6, 5}, other, rows, {});
        }
      });
    for (std::thread& thread : threads) thread.join();
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

}  // namespace
}  // namespace distwrap
