// Dispatch and combine in memory that the backend has allocated, on all ranks
// and on some: the same bits as in memory of the process.
#include "distwrap/memory.h"
#include "ranks/moe_ranks.h"

#include <algorithm>
#include <optional>

namespace distwrap::testing {
namespace {

constexpr int64_t kSlots = 3, kExpertsOfRank = 3, kWidth = 301;

size_t at(int64_t i) { return static_cast<size_t>(i); }

Routed<int32_t> routed(int ranks) {
  std::mt19937_64 random(5);
  const auto experts = static_cast<int32_t>(kExpertsOfRank * ranks);
  std::uniform_int_distribution<int32_t> id(-1, experts - 1);
  Routed<int32_t> all{kSlots, {}};
  for (int r = 0; r < ranks; ++r) {
    all.ids.emplace_back(at((150 + 20 * r) * kSlots));
    for (int32_t& one : all.ids.back()) one = id(random);
  }
  return all;
}

// Floats of the backend, or of the process where it has none.
class Rows {
 public:
  Rows(bool allocated, int64_t rows, int64_t width)
      : shape_{rows, width}, own_(at(rows * width), kSentinel) {
    const auto allocator = get_mem_allocator();
    if (!allocated || !allocator.ok()) return;
    auto made = allocator->allocate(std::max<int64_t>(1, rows * width) * 4);
    EXPECT_TRUE(made.ok()) << made.status();
    if (!made.ok()) return;
    memory_ = *std::move(made);
    std::copy(own_.begin(), own_.end(), data());
  }
  float* data() {
    return memory_.has_value() ? static_cast<float*>(memory_->data())
                               : own_.data();
  }
  TensorView view() { return TensorView(data(), shape_); }
  Floats values() { return Floats(data(), data() + own_.size()); }

 private:
  int64_t shape_[2];
  Floats own_;
  std::optional<Memory> memory_;
};

struct Results {
  Floats rows, weights, sums;
  bool operator==(const Results&) const = default;
};

// One dispatch with weights, and a combine of what came.
Results round_trip(int me, const MoePlan& plan, bool in, bool out,
                   const OpOptions& how, const CombineOptions& combine) {
  const bool by_expert = combine.weighting == MoeWeighting::kAtExpert;
  const int64_t tokens = plan.tokens(), m = plan.recv_rows();
  Rows x(in, tokens, kWidth), rows(out, m, kWidth), sums(in, tokens, kWidth);
  Rows weights(false, tokens, kSlots), came(out, m, by_expert ? 1 : kSlots);
  for (int64_t i = 0; i < tokens * kWidth; ++i)
    x.data()[i] = static_cast<float>((me * 37 + i) % 1013) / 7;
  for (int64_t i = 0; i < tokens * kSlots; ++i)
    weights.data()[i] = 1.0f / static_cast<float>(1 + (me + i) % 5);
  const SideChannel side[] = {
      SideChannel::weights(weights.view(), came.view())};
  finish(moe_dispatch(plan, x.view(), rows.view(), side, how));
  CombineOptions options = combine;
  if (by_expert) options.weights = came.view();
  finish(moe_combine(plan, rows.view(), sums.view(), options, how));
  return {rows.values(), came.values(), sums.values()};
}

TEST(MoeMemory, GivesTheBitsThatPrivateMemoryGives) {
  for (const int ranks : {2, 4})
    run_bound(ranks, [&](int me) {
      Routed<int32_t> all = routed(ranks);
      std::vector<int32_t> nodes;
      for (int r = 0; r < ranks; ++r) nodes.push_back(r % 2);
      for (const MoeDedup level : kLevels)
        for (const bool expert_major : {true, false}) {
          const MoePlan plan = good(
              all.plan(me, {.num_experts = kExpertsOfRank * ranks,
                            .dedup = level,
                            .layout = expert_major ? MoeLayout::kExpertMajor
                                                   : MoeLayout::kRankMajor,
                            .node_of = nodes}));
          ASSERT_TRUE(plan);
          CombineOptions combine;
          if (expert_major) combine.weighting = MoeWeighting::kAtExpert;
          combine.reproducible = level == MoeDedup::kNode;
          const Results want = round_trip(me, plan, false, false, {}, combine);
          // Lent rows are tried first, then staged ones.
          for (int turn = 0; turn < 12; ++turn) {
            const bool in = turn < 4 || (turn + me) % 2 == 0,
                       out = turn < 4 || (turn + me) % 3 == 0;
            const OpOptions how{.async = turn % 4 == 1};
            EXPECT_TRUE(want == round_trip(me, plan, in, out, how, combine))
                << "level " << static_cast<int>(level) << ", turn " << turn;
          }
        }
    });
}

}  // namespace
}  // namespace distwrap::testing
