// Mixture-of-experts calls on ranks that are threads: the worked vectors, and
// jobs of random tokens whose results a test can tell from the definition.
#ifndef DISTWRAP_TESTS_RANKS_MOE_RANKS_H_
#define DISTWRAP_TESTS_RANKS_MOE_RANKS_H_

#include "distwrap/moe.h"
#include "ranks/facade_ranks.h"

#include <array>
#include <cstdint>
#include <random>
#include <vector>

namespace distwrap::testing {

inline const std::vector<int32_t> kTwoByTwo = {0, 0, 1, 1};

template <class T>
std::vector<T> values_of(TensorView view) {
  const auto* const data = static_cast<const T*>(view.data());
  return std::vector<T>(data, data + view.count());
}

// The ids of all ranks, (T,K) each.
template <class Id = int32_t>
struct Routed {
  int64_t slots = 0;
  std::vector<std::vector<Id>> ids;  // by rank

  int64_t tokens(int rank) const {
    return static_cast<int64_t>(ids[static_cast<size_t>(rank)].size()) / slots;
  }
  absl::StatusOr<MoePlan> plan(int rank, const MoeOptions& moe,
                               const OpOptions& options = {}) {
    const int64_t shape[] = {tokens(rank), slots};
    return moe_plan(TensorView(ids[static_cast<size_t>(rank)].data(), shape),
                    moe, options);
  }
};

// The worked vectors of docs/moe.md: 2 nodes of 2 ranks, 3 tokens of 2 slots.
inline Routed<int32_t> vector_a() {
  return {2,
          {{2, 3, 0, 1, 1, 2},
           {0, 2, 2, 3, 1, 3},
           {0, 1, 2, 3, 0, 3},
           {3, 2, 1, 0, 0, 2}}};
}
inline Routed<int32_t> vector_b() {
  return {2,
          {{4, 6, 0, 1, 2, 5},
           {4, 5, 3, 7, 0, 2},
           {1, 2, 6, 7, 0, 5},
           {7, 4, 2, 3, 1, 6}}};
}
// Token t of rank r has the value 100 r + t.
inline std::vector<int32_t> vector_tokens(int rank) {
  return {100 * rank, 100 * rank + 1, 100 * rank + 2};
}

inline TensorView matrix(auto& values, absl::Span<const int64_t> shape) {
  return TensorView(values.data(), shape);
}

inline MoePlan good(absl::StatusOr<MoePlan> plan) {
  EXPECT_TRUE(plan.ok()) << plan.status();
  return plan.ok() ? *std::move(plan) : MoePlan();
}

inline const MoeDedup kLevels[] = {MoeDedup::kNone, MoeDedup::kRank,
                                   MoeDedup::kNode};

}  // namespace distwrap::testing

#endif  // DISTWRAP_TESTS_RANKS_MOE_RANKS_H_
