// Windows on every backend that has them, with one body for all.
#ifndef DISTWRAP_TESTS_RANKS_WINDOW_RANKS_H_
#define DISTWRAP_TESTS_RANKS_WINDOW_RANKS_H_

#include "distwrap/distwrap.h"
#include "host_backends.h"
#include "ranks/facade_ranks.h"
#include "ranks/hub_ranks.h"

#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace distwrap::testing {

// ucx with each rank counted as on a host of its own, so that nothing is
// mapped.
inline constexpr char kUcxApart[] = "ucx_apart";

class WindowRanks : public ::testing::TestWithParam<std::string> {
 protected:
  // Runs ranks that are threads, bound to sessions of their own.
  void run(int n, const std::function<void(int)>& body,
           absl::Duration timeout = absl::Seconds(60)) const {
    run_hub_ranks(
        n, {.backend = apart() ? "ucx" : GetParam(), .timeout = timeout},
        [&](Session& session) { body(session.rank()); }, nullptr, std::nullopt,
        [&](int rank, InitOptions* mine) {
          if (apart()) mine->hints["host"] = std::to_string(rank);
        });
  }
  static bool apart() { return GetParam() == kUcxApart; }
};

#define DISTWRAP_WINDOW_BACKENDS(suite)                                     \
  INSTANTIATE_TEST_SUITE_P(Backends, suite,                                 \
                           ::testing::ValuesIn(and_ucx<std::string>(        \
                               host_backends<std::string>(), {kUcxApart})), \
                           [](const auto& test) { return test.param; })

inline void expect_ok(const absl::StatusOr<Work>& work) {
  ASSERT_TRUE(work.ok()) << work.status();
  const absl::Status ended = work->wait();
  EXPECT_TRUE(ended.ok()) << ended;
}
inline void expect_ok(const absl::Status& status) {
  EXPECT_TRUE(status.ok()) << status;
}

// Makes a window; fails the test when it cannot.
inline Window make_window(const WindowOptions& options) {
  const absl::StatusOr<Window> window = new_window(options);
  EXPECT_TRUE(window.ok()) << window.status();
  return window.ok() ? *window : Window();
}

// The elements of a part that this rank can read while no rank writes.
template <class T>
std::vector<T> copy_of(const Window& window) {
  const absl::Span<T> own = window.memory_of<T>();
  return {own.begin(), own.end()};
}

}  // namespace distwrap::testing

#endif  // DISTWRAP_TESTS_RANKS_WINDOW_RANKS_H_
