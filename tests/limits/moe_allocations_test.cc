// After the first calls a dispatch and a combine that wait allocate nothing.
#include "distwrap/distwrap.h"
#include "distwrap/moe.h"
#include "failing_new.h"

#include <gtest/gtest.h>

#include <array>
#include <numeric>
#include <vector>

namespace distwrap::testing {
namespace {

int64_t allocations_of(MoeLayout layout, bool weighted) {
  constexpr int64_t kTokens = 16, kSlots = 2, kWidth = 8;
  std::vector<int32_t> ids(kTokens * kSlots);
  for (size_t i = 0; i < ids.size(); ++i)
    ids[i] = static_cast<int32_t>(i * 3 % 4);
  const std::array<int64_t, 2> slots = {kTokens, kSlots};
  const absl::StatusOr<MoePlan> plan = moe_plan(
      TensorView(ids.data(), slots), {.num_experts = 4, .layout = layout});
  EXPECT_TRUE(plan.ok()) << plan.status();
  const int64_t rows = plan->recv_rows();
  std::vector<float> x(kTokens * kWidth, 1), out(x.size()),
      y(static_cast<size_t>(rows * kWidth)), weights(ids.size(), 1),
      row_weights(static_cast<size_t>(rows));
  const std::array<int64_t, 2> tokens = {kTokens, kWidth},
                               received = {rows, kWidth};
  const SideChannel side[] = {SideChannel::weights(
      TensorView(weights.data(), slots), TensorView(row_weights))};
  CombineOptions combine;
  if (weighted) {
    combine.weighting = MoeWeighting::kAtExpert;
    combine.weights = TensorView(row_weights);
  }
  for (int i = 0; i < 20; ++i) {
    if (i == 10) FailingNew::arm(int64_t{1} << 60);
    const bool good = moe_dispatch(*plan, TensorView(x.data(), tokens),
                                   TensorView(y.data(), received),
                                   absl::MakeConstSpan(side, weighted ? 1 : 0))
                          .ok() &&
                      moe_combine(*plan, TensorView(y.data(), received),
                                  TensorView(out.data(), tokens), combine)
                          .ok();
    EXPECT_TRUE(good);
  }
  FailingNew::disarm();
  return FailingNew::counted();
}

TEST(MoeAllocations, CallsThatWaitAllocateNothing) {
  ASSERT_TRUE(init_process_group({.rank = 0, .world_size = 1}).ok());
  FailingNew::arm(int64_t{1} << 60);
  const std::vector<int> counts(3);
  FailingNew::disarm();
  EXPECT_EQ(FailingNew::counted(), 1) << "allocations are counted";
  EXPECT_EQ(allocations_of(MoeLayout::kRankMajor, false), 0);
  EXPECT_EQ(allocations_of(MoeLayout::kExpertMajor, false), 0);
  EXPECT_EQ(allocations_of(MoeLayout::kExpertMajor, true), 0);
  ASSERT_TRUE(destroy_process_group().ok());
}

}  // namespace
}  // namespace distwrap::testing
