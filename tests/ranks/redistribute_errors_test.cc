// Redistributions that fail: late ranks, ranks that ask for something else, and
// bad arguments.
#include "ranks/redistribute_parts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace distwrap {
namespace {

using ::testing::HasSubstr;

TEST_P(Redistribute, ALateRankIsNamedWithTheStep) {
  without_rank_1(GetParam(), [](const DeviceMesh& mesh, const Layout& rows,
                                const Layout& columns) {
    std::vector<float> in(8, 1), out(8, 7);
    const std::vector<float> before = in;
    const absl::Status status =
        redistribute(mesh, TensorView(out), columns, TensorView(in), rows,
                     {4, 4}, {.timeout = absl::Milliseconds(200)});
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(in, before);
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

// Ranks that agree on the layouts, and not on element type or shape.
TEST_P(Redistribute, AnotherElementTypeOrShapeIsAMismatch) {
  for (const bool types_differ : {true, false})
    testing::run_ranks(2, {.backend = GetParam()}, [&](Session& session) {
      bind_session(session);
      const MeshShape shape{{2}};
      const auto mesh = DeviceMesh::create(shape);
      ASSERT_TRUE(mesh.ok()) << mesh.status();
      const bool is_other = session.rank() == 1;
      const DType dtype = types_differ && is_other ? DType::kI32 : DType::kF32;
      // Each rank has a part of 8 elements.
      const std::vector<int64_t> tensor = {!types_differ && is_other ? 2 : 4,
                                           !types_differ && is_other ? 8 : 4};
      std::vector<float> in(8, 1), out(8);
      const absl::Status status = redistribute(
          *mesh, TensorView(out.data(), 8, dtype),
          **Layout::parse(shape, "S(1)"), TensorView(in.data(), 8, dtype),
          **Layout::parse(shape, "S(0)"), tensor,
          {.timeout = absl::Seconds(20)});
      // An engine that does not compare calls may end one before the board
      // tells; then the end of the session does.
      if (status.ok())
        EXPECT_EQ(error_reason(destroy_process_group()), Reason::kCallMismatch);
      else
        EXPECT_EQ(error_reason(status), Reason::kCallMismatch) << status;
    });
}

TEST(RedistributeArguments, AfterTheEndOfTheSession) {
  testing::run_ranks(2, {.backend = "shm"}, [&](Session& session) {
    bind_session(session);
    const MeshShape shape{{2}};
    const auto mesh = DeviceMesh::create(shape);
    ASSERT_TRUE(mesh.ok()) << mesh.status();
    const std::vector<float> in(4, 1);
    std::vector<float> out(8);
    const auto go = [&] {
      return redistribute(*mesh, TensorView(out), **Layout::parse(shape, "R"),
                          TensorView(in), **Layout::parse(shape, "S(0)"), {8});
    };
    ASSERT_TRUE(go().ok());
    ASSERT_TRUE(destroy_process_group().ok());
    EXPECT_EQ(error_reason(go()), Reason::kGroupClosed);
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

}  // namespace
}  // namespace distwrap
