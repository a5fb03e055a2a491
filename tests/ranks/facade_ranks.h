// Facade calls on ranks that are threads, for each size and way of waiting.
#ifndef DISTWRAP_TESTS_RANKS_FACADE_RANKS_H_
#define DISTWRAP_TESTS_RANKS_FACADE_RANKS_H_

#include "distwrap/distwrap.h"
#include "ranks/rank_threads.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <tuple>
#include <vector>

namespace distwrap::testing {

using Floats = std::vector<float>;
using Counts = std::vector<int64_t>;

inline constexpr float kSentinel = -12345.0f;

// Floats with guards before and behind them.
class Padded {
 public:
  explicit Padded(int64_t n, float fill = kSentinel)
      : all_(static_cast<size_t>(n) + 2 * kPad, kSentinel), n_(n) {
    std::fill(all_.begin() + kPad, all_.end() - kPad, fill);
  }
  float* data() { return all_.data() + kPad; }
  TensorView view() { return TensorView(data(), n_); }
  TensorView part(int64_t first, int64_t n) {
    return TensorView(data() + first, n);
  }
  float& operator[](int64_t i) { return data()[i]; }
  int64_t count() const { return n_; }
  // Elements first.. first+n hold `value`.
  void expect(float value, int64_t first = 0, int64_t n = -1) {
    for (int64_t i = first; i < (n < 0 ? n_ : first + n); ++i)
      ASSERT_EQ(data()[i], value) << "at " << i;
    for (size_t i = 0; i < kPad; ++i) {
      ASSERT_EQ(all_[i], kSentinel) << "written before the buffer";
      ASSERT_EQ(all_[all_.size() - 1 - i], kSentinel)
          << "written behind the buffer";
    }
  }

 private:
  static constexpr size_t kPad = 16;
  Floats all_;
  int64_t n_;
};

// Runs `n` ranks over each backend that serves them, each with a bound session.
inline void run_bound(int n, const std::function<void(int)>& body) {
  run_over_each(n, {.timeout = absl::Seconds(60)}, [&](Session& session) {
    bind_session(session);
    body(session.rank());
    bind_session({});
  });
}

class FacadeRanks : public ::testing::TestWithParam<std::tuple<int, bool>> {
 protected:
  int n() const { return std::get<0>(GetParam()); }
  OpOptions how() const {
    OpOptions options;
    options.async = std::get<1>(GetParam());
    return options;
  }
  // 1 + 2 + .. + n.
  float triangle() const { return static_cast<float>(n() * (n() + 1)) / 2; }
  void run(const std::function<void(int)>& body) const { run_bound(n(), body); }
};

inline float of_rank(int rank) { return static_cast<float>(rank + 1); }

inline void finish(const absl::StatusOr<Work>& work) {
  ASSERT_TRUE(work.ok()) << work.status();
  const absl::Status status = work->wait();
  ASSERT_TRUE(status.ok()) << status;
}

// The reason of a call that has to fail.
inline void expect_reason(const absl::Status& status, Reason reason,
                          absl::string_view text = "") {
  EXPECT_EQ(error_reason(status), reason) << status;
  EXPECT_NE(status.message().find(text), absl::string_view::npos) << status;
}

#define DISTWRAP_FACADE_SIZES(suite)                          \
  INSTANTIATE_TEST_SUITE_P(                                   \
      Sizes, suite,                                           \
      ::testing::Combine(::testing::Values(1, 2, 3, 4, 5, 8), \
                         ::testing::Bool()),                  \
      [](const auto& test) {                                  \
        return std::to_string(std::get<0>(test.param)) +      \
               (std::get<1>(test.param) ? "Async" : "Sync");  \
      })

}  // namespace distwrap::testing

#endif  // DISTWRAP_TESTS_RANKS_FACADE_RANKS_H_
