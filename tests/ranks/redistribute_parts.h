// Parts of all ranks, and one move that is held against the simulation of its
// plan: shared by the tests of redistribution.
//
// Threads: any. Ownership: values.
#ifndef DISTWRAP_TESTS_RANKS_REDISTRIBUTE_PARTS_H_
#define DISTWRAP_TESTS_RANKS_REDISTRIBUTE_PARTS_H_

#include "distwrap/distwrap.h"
#include "distwrap/redistribute.h"
#include "ranks/rank_threads.h"
#include "unit/layout/simulated_plan.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

namespace distwrap {

// The parts of all ranks: ranks that differ on replicated axes hold equal ones.
layout::Parts given_parts(const Layout& layout,
                          absl::Span<const int64_t> shape);

// Moves this rank's part from a layout to another one, and compares it with
// what the plan gives by the simulation.
template <class T>
void expect_moved(const DeviceMesh& mesh, absl::Span<const int64_t> shape,
                  const Layout& from, const Layout& to,
                  const RedistributeOptions& options) {
  const auto plan =
      make_plan(shape, sizeof(T), from, to,
                {.mode = options.mode, .cap_bytes = options.cap_bytes});
  if (!plan.ok()) return;  // a partial target that is refused
  SCOPED_TRACE((*plan)->text());
  const layout::Parts given = given_parts(from, shape);
  const layout::Parts expected = layout::run(**plan, given);
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

// A test over each backend of the host's memory.
class Redistribute : public ::testing::TestWithParam<std::string> {};

// Calls `body` on rank 0 of two that have redistributed once; rank 1 does not
// come any more.
void without_rank_1(
    const std::string& backend,
    const std::function<void(const DeviceMesh&, const Layout& rows,
                             const Layout& columns)>& body);

}  // namespace distwrap

#endif  // DISTWRAP_TESTS_RANKS_REDISTRIBUTE_PARTS_H_
