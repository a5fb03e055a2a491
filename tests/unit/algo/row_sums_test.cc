// The sums of rows: rules by examples, and all variants against one another.
#include "algo/reduce_kernels.h"
#include "sdk/dtype.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

namespace distwrap::algo {
namespace {

constexpr dw_dtype kI32{0, 32, 1}, kI64{0, 64, 1}, kF16{2, 16, 1},
    kBF16{4, 16, 1}, kF32{2, 32, 1}, kF64{2, 64, 1};

struct Term {
  double value;
  uint8_t into, then = 0;
  float weight = 1;
};

template <class T>
T sum_of(dw_dtype dtype, const std::vector<Term>& terms, uint32_t flags = 0) {
  std::vector<T> values;
  std::vector<dw_moe_operand> operands;
  for (const Term& term : terms) values.push_back(static_cast<T>(term.value));
  for (size_t i = 0; i < terms.size(); ++i)
    operands.push_back(
        {&values[i], dtype, terms[i].weight, terms[i].into, terms[i].then, {}});
  T out = 7;
  row_sums().sum(&out, dtype, dtype, operands.data(), operands.size(), 1,
                 flags);
  return out;
}

TEST(RowSums, PartsAreAddedBeforeTheyAreJoined) {
  // (big + 1) - big is 0 in f32, big + (1 - big) too; (big - big) + 1 is 1.
  const double big = 1 << 25;
  EXPECT_EQ(sum_of<float>(kF32, {{big, 2}, {1, 2}, {-big, 2}}), 0);
  EXPECT_EQ(sum_of<float>(kF32, {{big, 2}, {-big, 2}, {1, 2}}), 1);
  // 1 + (big - big), by each of the two lower sums, and by both.
  EXPECT_EQ(sum_of<float>(kF32, {{1, 2}, {big, 1}, {-big, 1, DW_MOE_CLOSE_1}}),
            1);
  constexpr uint8_t kBoth = DW_MOE_CLOSE_0 | DW_MOE_CLOSE_1;
  EXPECT_EQ(sum_of<float>(kF32, {{1, 2}, {big, 0}, {-big, 0, kBoth}}), 1);
  // A sum that was closed begins anew.
  EXPECT_EQ(sum_of<float>(kF32, {{big, 0, kBoth}, {1, 0}, {-big, 0, kBoth}}),
            0);
  EXPECT_EQ(sum_of<float>(
                kF32, {{1, 1, DW_MOE_CLOSE_1}, {2, 1, DW_MOE_CLOSE_1}, {4, 2}}),
            7);
}

TEST(RowSums, BeginWithTheirFirstOperand) {
  EXPECT_TRUE(std::signbit(sum_of<float>(kF32, {{-0.0, 2}, {-0.0, 2}})));
  EXPECT_TRUE(std::signbit(
      sum_of<float>(kF32, {{-0.0, 0, DW_MOE_CLOSE_0 | DW_MOE_CLOSE_1}})));
  EXPECT_FALSE(std::signbit(sum_of<float>(kF32, {})));
  EXPECT_EQ(sum_of<double>(kF64, {}), 0);
}

TEST(RowSums, ProductsAreRoundedBeforeTheyAreAdded) {
  const float w = 1 + 0x1p-23f, x = 1 + 0x1p-23f;
  // w * x is 1 + 2^-22 + 2^-46, which is cut off; a fused add would keep it.
  EXPECT_EQ(sum_of<float>(kF32, {{-1 - 0x1p-22, 2}, {x, 2, 0, w}},
                          DW_MOE_SUM_WEIGHTED),
            0);
}

TEST(RowSums, IntegersWrap) {
  EXPECT_EQ(sum_of<int32_t>(kI32, {{INT32_MAX, 2}, {1, 2}}), INT32_MIN);
  EXPECT_EQ(sum_of<int64_t>(kI64, {{0x1p62, 2}, {0x1p62, 2}}), INT64_MIN);
}

TEST(RowSums, ABiasAmongIntegersIsCutOff) {
  const float biases[] = {-2.75f, 0x1p70f, NAN};
  for (const float bias : biases) {
    const int32_t five = 5;
    const dw_moe_operand operands[] = {{&bias, kF32, 1, 2, 0, {}},
                                       {&five, kI32, 1, 2, 0, {}}};
    float out = 7;
    row_sums().sum(&out, kF32, kI32, operands, 2, 1, 0);
    // The least i64 is 0 in 32 bits.
    EXPECT_EQ(out, bias == biases[0] ? 3 : 5);
  }
}

// All variants give the same bits for rows at any address, of any width.
TEST(RowSums, VariantsAreEqual) {
  const auto variants = kernel_variants();
  std::mt19937 random(5);
  const dw_dtype types[] = {kF16, kBF16, kF32, kF64, kI32, kI64};
  for (int round = 0; round < 600; ++round) {
    const dw_dtype in = types[random() % 6];
    const bool narrow = in.bits == 16 || (in.code == 2 && in.bits == 32);
    const dw_dtype wire = narrow && random() % 2 == 0 ? kF32 : in;
    const dw_dtype out = random() % 2 == 0 ? kF32 : in;
    const uint64_t width = 1 + random() % 700, n = random() % 9;
    const auto is_float = in.code != 0;
    std::vector<std::vector<char>> rows;
    std::vector<dw_moe_operand> operands;
    for (uint64_t k = 0; k < n; ++k) {
      const dw_dtype type = random() % 2 == 0 ? in : wire;
      const uint64_t offset = random() % 16;
      rows.emplace_back(offset + width * dw_dtype_bytes(type));
      char* const at = rows.back().data() + offset;
      for (uint64_t i = 0; i < width; ++i) {
        // Numbers of many sizes, subnormal ones among them, but no NaN.
        uint64_t bits = uint64_t{random()} << 32 | random();
        if (type.code == 2 && type.bits == 16 && (bits & 0x7c00) == 0x7c00)
          bits ^= 0x4000;
        if (type.code == 4 && (bits & 0x7f80) == 0x7f80) bits ^= 0x4000;
        if (type.code == 2 && type.bits == 32)
          bits = (bits & 0x807fffff) | (90u + random() % 60) << 23;
        if (type.bits == 64 && is_float)
          bits = (bits & 0x800fffffffffffff) | (uint64_t{1000} + random() % 40)
                                                   << 52;
        std::memcpy(at + i * dw_dtype_bytes(type), &bits, dw_dtype_bytes(type));
      }
      const auto into = static_cast<uint8_t>(random() % 3);
      operands.push_back({at,
                          type,
                          0.5f + static_cast<float>(random() % 99),
                          into,
                          static_cast<uint8_t>(random() % 4),
                          {}});
    }
    if (!operands.empty()) operands.back().then = 3;
    const uint32_t flags =
        (is_float && random() % 2 == 0 ? DW_MOE_SUM_WEIGHTED : 0u) |
        (random() % 2 == 0 ? DW_MOE_SUM_PAST_CACHES : 0u);
    const uint64_t offset = random() % 3 * 8,
                   bytes = width * dw_dtype_bytes(out);
    std::vector<std::vector<char>> got;
    for (const KernelVariant& variant : variants) {
      got.emplace_back(offset + bytes + 9, '\x5a');
      variant.sum_rows(got.back().data() + offset, out, in, operands.data(),
                       operands.size(), width, flags);
      EXPECT_EQ(got.back(), got.front())
          << variant.name << " in round " << round;
    }
    for (size_t i = 0; i < 9; ++i)
      ASSERT_EQ(got.front()[offset + bytes + i], '\x5a') << "round " << round;
  }
}

}  // namespace
}  // namespace distwrap::algo
