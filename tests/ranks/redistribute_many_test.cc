// Several tensors at once, and redistributions that do not wait.
#include "ranks/redistribute_parts.h"
#include "unit/layout/placement_texts.h"

#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace distwrap {
namespace {

using layout::Parts;
using layout::sequences;

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

}  // namespace
}  // namespace distwrap
