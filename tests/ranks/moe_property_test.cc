// Random jobs against the definition of each call: bits are equal at all levels
// and over all backends.
#include "ranks/moe_ranks.h"
#include "sdk/half.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <numeric>
#include <set>

namespace distwrap::testing {
namespace {

size_t at(int64_t i) { return static_cast<size_t>(i); }

constexpr int64_t kWidth = 9;

// Equal tokens and ids on all ranks, from a seed.
struct Tokens {
  Tokens(int ranks, uint64_t seed, int64_t slot_count, int64_t expert_count,
         std::vector<int32_t> nodes)
      : slots(slot_count), experts(expert_count), node_of(std::move(nodes)) {
    std::mt19937_64 random(seed);
    std::uniform_int_distribution<int> tokens(0, 12);
    std::uniform_int_distribution<int32_t> id(
        -1, static_cast<int32_t>(experts) - 1);
    routed.slots = slots;
    for (int r = 0; r < ranks; ++r) {
      const int count = r == 1 ? 0 : tokens(random);
      routed.ids.emplace_back();
      for (int64_t i = 0; i < count * slots; ++i)
        routed.ids.back().push_back(id(random));
    }
  }
  int64_t of(int rank) const { return routed.tokens(rank); }
  int32_t id(int rank, int64_t t, int64_t k) const {
    return routed.ids[at(rank)][at(t * slots + k)];
  }
  // Slots of a token whose experts are not named by an earlier slot.
  std::vector<int64_t> first_slots(int rank, int64_t t) const {
    std::set<int32_t> seen;
    std::vector<int64_t> first;
    for (int64_t k = 0; k < slots; ++k)
      if (id(rank, t, k) >= 0 && seen.insert(id(rank, t, k)).second)
        first.push_back(k);
    return first;
  }
  // The weight of a first slot: those of repeated slots are added.
  float weight(int rank, int64_t t, int64_t k) const {
    float sum = 0;
    bool has = false;
    for (int64_t j = k; j < slots; ++j)
      if (id(rank, t, j) == id(rank, t, k)) {
        sum = has ? sum + raw_weight(rank, t, j) : raw_weight(rank, t, j);
        has = true;
      }
    return sum;
  }
  static float raw_weight(int rank, int64_t t, int64_t k) {
    return 1.0f / static_cast<float>(1 + (rank * 31 + t * 7 + k * 3) % 11);
  }
  int rank_of(int32_t expert) const {
    return static_cast<int>(expert /
                            (experts / static_cast<int64_t>(node_of.size())));
  }

  int64_t slots, experts;
  std::vector<int32_t> node_of;
  mutable Routed<int32_t> routed;
};

// A number that sums of bf16 round.
float value(int rank, int64_t t, int64_t expert, int64_t x) {
  const auto mixed = static_cast<uint32_t>(rank * 7919 + t * 104729 +
                                           expert * 1299709 + x * 31);
  return static_cast<float>(static_cast<int32_t>(mixed * 2654435761u) >> 12) /
         1024.0f;
}

template <class T>
T as(float x) {
  return static_cast<T>(x);
}
struct BF16 {
  uint16_t bits;
  bool operator==(const BF16&) const = default;
};
template <>
BF16 as<BF16>(float x) {
  return {dw_sdk::f32_to_bf16(x)};
}
float number(BF16 x) { return dw_sdk::bf16_to_f32(x.bits); }
float number(float x) { return x; }

template <class T>
TensorView rows(std::vector<T>& data, absl::Span<const int64_t> shape) {
  return TensorView(data.data(), shape,
                    sizeof(T) == 2 ? DType::kBF16 : DType::kF32);
}

// The rows of an expert's output, and the sum of a token's rows in the
// order of the definition.
template <class T>
struct Sums {
  const Tokens& tokens;
  bool weighted, by_slot;

  float term(int s, int64_t t, int64_t k, int64_t x) const {
    const float y = number(as<T>(value(s, t, tokens.id(s, t, k), x)));
    return weighted ? tokens.weight(s, t, k) * y : y;
  }
  float of(int s, int64_t t, int64_t x, absl::Span<const float> biases) const {
    // By node, lane and expert; or all by slot.
    std::map<int32_t, int> node_number;
    for (const int32_t node : tokens.node_of)
      node_number.emplace(node, static_cast<int>(node_number.size()));
    for (auto& [node, unused] : node_number)
      node_number[node] = static_cast<int>(
          std::find(tokens.node_of.begin(), tokens.node_of.end(), node) -
          tokens.node_of.begin());
    std::map<int, std::map<int, std::map<int64_t, float>>> tree;
    int64_t next = 0;
    for (const int64_t k : tokens.first_slots(s, t)) {
      const int32_t e = tokens.id(s, t, k);
      const int rank = tokens.rank_of(e);
      if (by_slot)
        tree[static_cast<int>(next++)][0][0] = term(s, t, k, x);
      else
        tree[node_number[tokens.node_of[at(rank)]]][rank][e] = term(s, t, k, x);
    }
    std::vector<float> sums(biases.begin(), biases.end());
    for (const auto& [node, ranks] : tree) {
      std::vector<float> of_ranks;
      for (const auto& [rank, terms] : ranks) {
        std::vector<float> all;
        for (const auto& [e, one] : terms) all.push_back(one);
        of_ranks.push_back(left_to_right(all));
      }
      sums.push_back(left_to_right(of_ranks));
    }
    return left_to_right(sums);
  }
  static float left_to_right(const std::vector<float>& values) {
    if (values.empty()) return 0;
    float sum = values[0];
    for (size_t i = 1; i < values.size(); ++i) sum += values[i];
    return sum;
  }
};

template <class T>
void round_trip(int me, const Tokens& tokens, MoeDedup level,
                const OpOptions& how) {
  const MoePlan plan =
      good(tokens.routed.plan(me, {.num_experts = tokens.experts,
                                   .dedup = level,
                                   .layout = MoeLayout::kExpertMajor,
                                   .alignment = 3,
                                   .node_of = tokens.node_of}));
  ASSERT_TRUE(plan);
  const int64_t mine = tokens.of(me), m = plan.recv_rows();
  const int64_t in_shape[] = {mine, kWidth}, out_shape[] = {m, kWidth};
  const int64_t slots_shape[] = {mine, tokens.slots};

  // Dispatch with weights and a scale of 3 bytes.
  std::vector<T> x(at(mine * kWidth)), got(at(m * kWidth), as<T>(-7));
  std::vector<uint8_t> scale(at(mine * 3)), got_scale(at(m * 3), 77);
  std::vector<float> weights(at(mine * tokens.slots)), got_weights(at(m), -7);
  for (int64_t t = 0; t < mine; ++t) {
    for (int64_t h = 0; h < kWidth; ++h)
      x[at(t * kWidth + h)] = as<T>(value(me, t, 0, h));
    for (int64_t b = 0; b < 3; ++b)
      scale[at(t * 3 + b)] = static_cast<uint8_t>(me * 40 + t * 3 + b);
    for (int64_t k = 0; k < tokens.slots; ++k)
      weights[at(t * tokens.slots + k)] = Tokens::raw_weight(me, t, k);
  }
  const int64_t scale_in[] = {mine, 3}, scale_out[] = {m, 3};
  const SideChannel side[] = {
      {rows(x, in_shape), rows(got, out_shape)},
      {TensorView(scale.data(), scale_in),
       TensorView(got_scale.data(), scale_out)},
      SideChannel::weights(TensorView(weights.data(), slots_shape),
                           TensorView(got_weights))};
  std::vector<T> payload = got;
  finish(moe_dispatch(plan, rows(x, in_shape), rows(payload, out_shape), side,
                      how));
  const std::vector<int32_t> src_rank = values_of<int32_t>(plan.src_rank());
  const std::vector<int32_t> src_token = values_of<int32_t>(plan.src_token());
  const std::vector<int64_t> offsets =
      values_of<int64_t>(plan.expert_offsets());
  const int64_t per_rank =
      tokens.experts / static_cast<int64_t>(tokens.node_of.size());
  std::vector<T> y(at(m * kWidth), as<T>(NAN));
  std::vector<float> values(at(m), -1);
  for (int64_t b = 0; b < per_rank; ++b)
    for (int64_t i = offsets[at(b)]; i < offsets[at(b) + 1]; ++i) {
      const int s = src_rank[at(i)];
      const int64_t t = src_token[at(i)], e = me * per_rank + b;
      int64_t k = 0;
      while (s >= 0 && tokens.id(s, t, k) != e) ++k;
      EXPECT_EQ(got_weights[at(i)], s < 0 ? 0 : tokens.weight(s, t, k));
      for (int64_t c = 0; c < 3; ++c)
        EXPECT_EQ(got_scale[at(i * 3 + c)], s < 0 ? 0 : s * 40 + t * 3 + c);
      for (int64_t h = 0; h < kWidth; ++h) {
        const T wanted = s < 0 ? as<T>(0) : as<T>(value(s, t, 0, h));
        EXPECT_EQ(payload[at(i * kWidth + h)], wanted);
        EXPECT_EQ(got[at(i * kWidth + h)], wanted);
        if (s >= 0) y[at(i * kWidth + h)] = as<T>(value(s, t, e, h));
      }
      if (s >= 0) values[at(i)] = value(s, t, e, 0);
    }

  // Combine, in every order and with weights on both sides.
  std::vector<float> bias(at(mine * kWidth), 0.3f), bias2(bias.size(), 1e-3f);
  const TensorView biases[] = {rows(bias, in_shape), rows(bias2, in_shape)};
  for (const MoeOrder order : {MoeOrder::kTree, MoeOrder::kTopK})
    for (const MoeWeighting weighting :
         {MoeWeighting::kNone, MoeWeighting::kAtExpert,
          MoeWeighting::kAtSource})
      for (const size_t bias_count : {size_t{0}, size_t{2}}) {
        SCOPED_TRACE(static_cast<int>(order) * 10 +
                     static_cast<int>(weighting));
        CombineOptions combine{.weighting = weighting,
                               .bias = absl::MakeConstSpan(biases, bias_count),
                               .order = order,
                               .reproducible = true};
        if (weighting == MoeWeighting::kAtExpert)
          combine.weights = TensorView(got_weights);
        if (weighting == MoeWeighting::kAtSource)
          combine.weights = TensorView(weights.data(), slots_shape);
        std::vector<float> back(at(mine * tokens.slots), -7);
        const CombineOptions::Return returns[] = {
            {TensorView(values), TensorView(back.data(), slots_shape)}};
        if (bias_count == 0) combine.returns = returns;
        std::vector<float> out(at(mine * kWidth), -7);
        finish(moe_combine(plan, rows(y, out_shape), rows(out, in_shape),
                           combine, how));
        const Sums<T> sums{tokens, weighting != MoeWeighting::kNone,
                           order == MoeOrder::kTopK};
        const float both[] = {0.3f, 1e-3f};
        for (int64_t t = 0; t < mine; ++t) {
          for (int64_t h = 0; h < kWidth; ++h)
            ASSERT_EQ(out[at(t * kWidth + h)],
                      sums.of(me, t, h, absl::MakeConstSpan(both, bias_count)))
                << "token " << t << " at " << h;
          if (bias_count != 0) continue;
          const std::vector<int64_t> first = tokens.first_slots(me, t);
          for (int64_t k = 0; k < tokens.slots; ++k)
            EXPECT_EQ(back[at(t * tokens.slots + k)],
                      std::count(first.begin(), first.end(), k) == 0
                          ? 0
                          : value(me, t, tokens.id(me, t, k), 0));
        }
      }
}

class MoeRoundTrip : public ::testing::TestWithParam<std::tuple<int, bool>> {
 protected:
  void run(const std::function<void(int, const Tokens&, MoeDedup,
                                    const OpOptions&)>& body) {
    const std::vector<std::vector<int32_t>> nodes = {
        {0, 0, 1, 1}, {5, 2, 5, 5}, {0, 0, 0}, {0, 1, 2, 0, 1}};
    const std::vector<int32_t>& node_of = nodes[at(std::get<0>(GetParam()))];
    const auto n = static_cast<int>(node_of.size());
    OpOptions how;
    how.async = std::get<1>(GetParam());
    run_bound(n, [&](int me) {
      for (uint64_t seed = 0; seed < 1; ++seed) {
        const Tokens tokens(n, seed, 5, 2 * n, node_of);
        for (const MoeDedup level : kLevels) {
          SCOPED_TRACE(static_cast<int>(level));
          body(me, tokens, level, how);
        }
      }
    });
  }
};

TEST_P(MoeRoundTrip, HalvesEqualTheDefinition) { run(round_trip<BF16>); }
TEST_P(MoeRoundTrip, FloatsEqualTheDefinition) { run(round_trip<float>); }

// <dispatch(x), g> = <x, combine(g)>, exactly for integers.
TEST_P(MoeRoundTrip, CombineIsTheGradientOfDispatch) {
  run([](int me, const Tokens& tokens, MoeDedup level, const OpOptions& how) {
    for (const MoeLayout layout :
         {MoeLayout::kRankMajor, MoeLayout::kExpertMajor}) {
      const MoePlan plan =
          good(tokens.routed.plan(me, {.num_experts = tokens.experts,
                                       .dedup = level,
                                       .layout = layout,
                                       .node_of = tokens.node_of}));
      ASSERT_TRUE(plan);
      const int64_t mine = tokens.of(me), m = plan.recv_rows();
      std::vector<int64_t> x(at(mine * 3)), out(at(m * 3)), g(out.size()),
          back(x.size(), -7);
      for (size_t i = 0; i < x.size(); ++i)
        x[i] = static_cast<int64_t>(i * i) * 1000003 + me;
      for (size_t i = 0; i < g.size(); ++i)
        g[i] = static_cast<int64_t>(i) * 7919 - 5 * me;
      const int64_t in_shape[] = {mine, 3}, out_shape[] = {m, 3};
      finish(moe_dispatch(plan, TensorView(x.data(), in_shape),
                          TensorView(out.data(), out_shape), {}, how));
      finish(moe_combine(plan, TensorView(g.data(), out_shape),
                         TensorView(back.data(), in_shape), {}, how));
      std::vector<int64_t> products = {
          std::inner_product(out.begin(), out.end(), g.begin(), int64_t{0}),
          std::inner_product(x.begin(), x.end(), back.begin(), int64_t{0})};
      finish(all_reduce(TensorView(products)));
      EXPECT_EQ(products[0], products[1]);
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Nodes, MoeRoundTrip,
                         ::testing::Combine(::testing::Range(0, 4),
                                            ::testing::Bool()),
                         [](const auto& test) {
                           return "Nodes" +
                                  std::to_string(std::get<0>(test.param)) +
                                  (std::get<1>(test.param) ? "Async" : "Sync");
                         });

// Dispatch, identity and combine with weights whose sum is 1 give the input.
TEST(MoeProperties, WeightsOfSumOneGiveTheInput) {
  run_bound(4, [](int me) {
    for (int64_t slots = 1; slots <= 8; ++slots)
      for (const MoeDedup level : kLevels) {
        Routed<int64_t> routed{slots, {{}, {}, {}, {}}};
        std::mt19937_64 random(at(slots));
        for (auto& ids : routed.ids)
          for (int64_t t = 0; t < 5; ++t) {
            std::vector<int64_t> all(8);
            std::iota(all.begin(), all.end(), 0);
            std::sample(all.begin(), all.end(), std::back_inserter(ids), slots,
                        random);
          }
        const MoePlan plan =
            good(routed.plan(me, {.num_experts = 8,
                                  .dedup = level,
                                  .layout = MoeLayout::kExpertMajor,
                                  .node_of = kTwoByTwo}));
        ASSERT_TRUE(plan);
        Floats x(5), rows(at(plan.recv_rows())), out(5);
        std::iota(x.begin(), x.end(), static_cast<float>(100 * me));
        finish(moe_dispatch(plan, TensorView(x), TensorView(rows)));
        // Powers of two, the last one twice: products and sums are exact.
        Floats weights(at(5 * slots));
        for (int64_t i = 0; i < 5 * slots; ++i) {
          const int64_t k = i % slots;
          weights[at(i)] =
              std::ldexp(1.0f, -static_cast<int>(k == slots - 1 ? k : k + 1));
        }
        const int64_t shape[] = {5, slots};
        finish(moe_combine(plan, TensorView(rows), TensorView(out),
                           {.weighting = MoeWeighting::kAtSource,
                            .weights = TensorView(weights.data(), shape)}));
        EXPECT_EQ(out, x);
      }
  });
}

// -0 stays what it is, and what is not finite comes through.
TEST(MoeProperties, SpecialNumbersInSums) {
  run_bound(2, [](int me) {
    Routed<int32_t> routed{2, {{0, 1, 1, -1, -1, -1, 0, 1}, {}}};
    const MoePlan plan = good(
        routed.plan(me, {.num_experts = 2, .layout = MoeLayout::kExpertMajor}));
    ASSERT_TRUE(plan);
    // The rows of rank 0's tokens 0, 1 and 3, as each expert returns them.
    Floats y =
        me == 0 ? Floats{-0.0f, INFINITY} : Floats{-0.0f, -0.0f, -INFINITY};
    ASSERT_EQ(plan.recv_rows(), static_cast<int64_t>(y.size()));
    Floats out(me == 0 ? 4 : 0, -7);
    finish(moe_combine(plan, TensorView(y), TensorView(out)));
    if (me != 0) return;
    EXPECT_TRUE(out[0] == 0 && std::signbit(out[0]));
    EXPECT_TRUE(out[1] == 0 && std::signbit(out[1]));
    EXPECT_TRUE(out[2] == 0 && !std::signbit(out[2])) << "no rows: 0";
    EXPECT_TRUE(std::isnan(out[3]));
  });
}

}  // namespace
}  // namespace distwrap::testing
