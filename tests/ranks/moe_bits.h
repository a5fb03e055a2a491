// A layer of experts whose result is told as one number: equal numbers mean
// equal bits on all ranks.
#ifndef DISTWRAP_TESTS_RANKS_MOE_BITS_H_
#define DISTWRAP_TESTS_RANKS_MOE_BITS_H_

#include "distwrap/distwrap.h"
#include "distwrap/moe.h"
#include "sdk/half.h"

#include <absl/status/statusor.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

namespace distwrap::testing {

// Four ranks on two nodes: dispatch of bf16 with weights, and a reproducible
// combine into bf16 with weights at the experts. The hash of all ranks'
// outputs.
inline absl::StatusOr<uint64_t> moe_bits(MoeDedup level) {
  constexpr int64_t kTokens = 37, kSlots = 4, kWidth = 19, kExperts = 16;
  const int me = get_rank();
  std::mt19937 random(static_cast<uint32_t>(me));
  std::vector<int32_t> ids;
  std::vector<float> weights;
  for (int64_t i = 0; i < kTokens * kSlots; ++i) {
    ids.push_back(static_cast<int32_t>(random() % (kExperts + 1)) - 1);
    weights.push_back(static_cast<float>(random() % 1000) / 997.0f);
  }
  std::vector<uint16_t> x;
  for (int64_t i = 0; i < kTokens * kWidth; ++i)
    x.push_back(
        dw_sdk::f32_to_bf16(static_cast<float>(random() % 20001) / 1000 - 10));
  const std::vector<int32_t> nodes = {0, 0, 1, 1};
  const std::array<int64_t, 2> slots = {kTokens, kSlots},
                               tokens = {kTokens, kWidth};
  absl::StatusOr<MoePlan> plan = moe_plan(TensorView(ids.data(), slots),
                                          {.num_experts = kExperts,
                                           .dedup = level,
                                           .layout = MoeLayout::kExpertMajor,
                                           .node_of = nodes});
  if (!plan.ok()) return plan.status();
  const int64_t m = plan->recv_rows();
  const std::array<int64_t, 2> received = {m, kWidth};
  std::vector<uint16_t> y(static_cast<size_t>(m * kWidth)), out(x.size());
  std::vector<float> row_weights(static_cast<size_t>(m));
  const SideChannel side[] = {SideChannel::weights(
      TensorView(weights.data(), slots), TensorView(row_weights))};
  absl::StatusOr<Work> work =
      moe_dispatch(*plan, TensorView(x.data(), tokens, DType::kBF16),
                   TensorView(y.data(), received, DType::kBF16), side);
  if (!work.ok()) return work.status();
  // The expert of a row: another factor for each rank.
  for (uint16_t& one : y)
    one = dw_sdk::f32_to_bf16(dw_sdk::bf16_to_f32(one) *
                              (1 + static_cast<float>(me) / 7));
  work = moe_combine(*plan, TensorView(y.data(), received, DType::kBF16),
                     TensorView(out.data(), tokens, DType::kBF16),
                     {.weighting = MoeWeighting::kAtExpert,
                      .weights = TensorView(row_weights),
                      .reproducible = true});
  if (!work.ok()) return work.status();
  uint64_t mine = 14695981039346656037u;
  for (const uint16_t one : out) mine = (mine ^ one) * 1099511628211u;
  std::vector<int64_t> all(static_cast<size_t>(get_world_size()));
  auto own = static_cast<int64_t>(mine);
  work = all_gather_into_tensor(TensorView(all), TensorView(&own, 1));
  if (!work.ok()) return work.status();
  uint64_t hash = 14695981039346656037u;
  for (const int64_t one : all)
    hash = (hash ^ static_cast<uint64_t>(one)) * 1099511628211u;
  return hash;
}

}  // namespace distwrap::testing

#endif  // DISTWRAP_TESTS_RANKS_MOE_BITS_H_
