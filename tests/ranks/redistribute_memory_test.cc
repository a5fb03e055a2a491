// The memory of redistributions: rounds under a cap, strided pieces, and what a
// mesh keeps.
#include "distwrap/memory.h"
#include "mesh/mesh_state.h"
#include "ranks/hook_diary.h"
#include "ranks/redistribute_parts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

namespace distwrap {
namespace {

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
    expect_moved<double>(*mesh, {100, 103}, **Layout::parse(shape, "S(1)"),
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
        expect_moved<double>(*mesh, {7, 5, 4}, **Layout::parse(shape, a),
                             **Layout::parse(shape, b), {.cap_bytes = 128});
    expect_moved<int16_t>(*mesh, {3, 7, 4}, **Layout::parse(shape, "S(1)"),
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

}  // namespace
}  // namespace distwrap
