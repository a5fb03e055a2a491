// Rules of the kernels that have a name, by examples worked out by hand.
#include "algo/reduce_kernels.h"

#include "sdk/half.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace distwrap::algo {
namespace {

constexpr dw_dtype kU8{1, 8, 1}, kI8{0, 8, 1}, kI16{0, 16, 1}, kU16{1, 16, 1},
    kI32{0, 32, 1}, kI64{0, 64, 1}, kU64{1, 64, 1}, kF16{2, 16, 1},
    kBF16{4, 16, 1}, kF32{2, 32, 1}, kF64{2, 64, 1}, kBool{6, 8, 1};

template <class T>
using Inputs = std::vector<std::vector<T>>;

template <class T>
std::vector<T> apply(dw_dtype dtype, uint16_t reduce, const Inputs<T>& inputs,
                     const void* operand = nullptr) {
  std::vector<T> out(inputs[0].size());
  std::vector<const void*> in;
  for (const std::vector<T>& input : inputs) in.push_back(input.data());
  reduce_kernel(dtype, reduce)(out.data(), in.data(), in.size(), out.size(),
                               operand);
  return out;
}

template <class T>
std::vector<T> average(dw_dtype dtype, const Inputs<T>& inputs,
                       int64_t divisor) {
  return apply<T>(dtype, DW_REDUCE_AVG, inputs, &divisor);
}

TEST(ReduceKernels, IntegersWrap) {
  using I64 = std::numeric_limits<int64_t>;
  EXPECT_EQ(apply<int64_t>(kI64, DW_REDUCE_SUM, {{I64::max()}, {1}}),
            (std::vector<int64_t>{I64::min()}));
  EXPECT_EQ(apply<int64_t>(kI64, DW_REDUCE_PRODUCT, {{I64::min()}, {-1}}),
            (std::vector<int64_t>{I64::min()}));
  EXPECT_EQ(apply<int8_t>(kI8, DW_REDUCE_SUM, {{127}, {1}, {1}}),
            (std::vector<int8_t>{-127}));
  EXPECT_EQ(apply<uint8_t>(kU8, DW_REDUCE_SUM, {{200}, {100}}),
            (std::vector<uint8_t>{44}));
  EXPECT_EQ(apply<uint16_t>(kU16, DW_REDUCE_PRODUCT, {{65535}, {65535}}),
            (std::vector<uint16_t>{1}));
  EXPECT_EQ(apply<int16_t>(kI16, DW_REDUCE_PRODUCT, {{300}, {300}}),
            (std::vector<int16_t>{24464}));
}

TEST(ReduceKernels, AverageOfIntegersTruncatesTowardZero) {
  EXPECT_EQ(average<int32_t>(kI32, {{-1, 1, -4}, {-2, 2, -3}}, 2),
            (std::vector<int32_t>{-1, 1, -3}));
  EXPECT_EQ(average<int8_t>(kI8, {{-3}}, 2), (std::vector<int8_t>{-1}));
  EXPECT_EQ(average<uint64_t>(kU64, {{UINT64_MAX - 1}, {1}}, 2),
            (std::vector<uint64_t>{UINT64_MAX / 2}));
}

TEST(ReduceKernels, AverageOfIntegersDividesTheWrappedSum) {
  EXPECT_EQ(average<uint8_t>(kU8, {{200}, {100}}, 2),
            (std::vector<uint8_t>{22}));
  EXPECT_EQ(average<int8_t>(kI8, {{100}, {100}}, 2),
            (std::vector<int8_t>{-28}));
}

TEST(ReduceKernels, TheDivisorMayBeLargerThanTheType) {
  EXPECT_EQ(average<int8_t>(kI8, {{-128, 127}}, 128),
            (std::vector<int8_t>{-1, 0}));
  EXPECT_EQ(average<uint8_t>(kU8, {{255}}, 300), (std::vector<uint8_t>{0}));
}

// In f16 the sum of so many ones would stop at 2048, in bf16 at 256.
TEST(ReduceKernels, ManyOnesIn16BitsAreCountedExactly) {
  constexpr size_t kMany = 4096;
  const Inputs<uint16_t> f16(kMany,
                             {dw_sdk::f32_to_f16(1), dw_sdk::f32_to_f16(1)});
  for (const uint16_t x : apply<uint16_t>(kF16, DW_REDUCE_SUM, f16))
    EXPECT_EQ(dw_sdk::f16_to_f32(x), 4096);
  const Inputs<uint16_t> bf16(kMany,
                              {dw_sdk::f32_to_bf16(1), dw_sdk::f32_to_bf16(1)});
  for (const uint16_t x : apply<uint16_t>(kBF16, DW_REDUCE_SUM, bf16))
    EXPECT_EQ(dw_sdk::bf16_to_f32(x), 4096);
}

// 40000 + 40000 is too large for f16; its half is not.
TEST(ReduceKernels, AverageOf16BitsDividesBeforeItRounds) {
  const uint16_t large = dw_sdk::f32_to_f16(40000);
  EXPECT_EQ(average<uint16_t>(kF16, {{large}, {large}}, 2),
            (std::vector<uint16_t>{large}));
  EXPECT_EQ(apply<uint16_t>(kF16, DW_REDUCE_SUM, {{large}, {large}}),
            (std::vector<uint16_t>{0x7c00}));
}

// Compares conversions of many elements with those of one, which half_test
// proves. Products of two values have more bits than fit, and are too large or
// too small.
void every_half_times_some(dw_dtype dtype, float (*widen)(uint16_t),
                           uint16_t (*narrow)(float)) {
  constexpr size_t kAll = 65536;
  std::vector<uint16_t> halves(kAll), factors(kAll), products(kAll);
  for (size_t i = 0; i < kAll; ++i) halves[i] = static_cast<uint16_t>(i);
  const void* const in[] = {halves.data(), factors.data()};
  for (const KernelVariant& variant : kernel_variants())
    for (size_t step = 0; step < 40; ++step) {
      for (size_t i = 0; i < kAll; ++i)
        factors[i] = static_cast<uint16_t>(step * 1637 + i * (step % 3) * 7);
      variant.find(dtype, DW_REDUCE_PRODUCT)(products.data(), in, 2, kAll,
                                             nullptr);
      for (size_t i = 0; i < kAll; ++i) {
        const float want = widen(halves[i]) * widen(factors[i]);
        if (std::isnan(want))
          ASSERT_TRUE(std::isnan(widen(products[i])))
              << variant.name << ": " << i << " times " << factors[i];
        else
          ASSERT_EQ(products[i], narrow(want))
              << variant.name << ": " << i << " times " << factors[i];
      }
    }
}

TEST(ReduceKernels, ConversionsOf16BitsAreExact) {
  every_half_times_some(kF16, dw_sdk::f16_to_f32, dw_sdk::f32_to_f16);
  every_half_times_some(kBF16, dw_sdk::bf16_to_f32, dw_sdk::f32_to_bf16);
}

TEST(ReduceKernels, EachInputIsScaled) {
  const float factor = 0.5f;
  EXPECT_EQ(apply<float>(kF32, DW_REDUCE_PREMUL_SUM, {{4, -2}}, &factor),
            (std::vector<float>{2, -1}));
  EXPECT_EQ(apply<float>(kF32, DW_REDUCE_PREMUL_SUM, {{4}, {6}, {8}}, &factor),
            (std::vector<float>{9}));
  const uint16_t third = dw_sdk::f32_to_f16(1.0f / 3);
  const std::vector<uint16_t> got = apply<uint16_t>(
      kF16, DW_REDUCE_PREMUL_SUM,
      {{dw_sdk::f32_to_f16(3)}, {dw_sdk::f32_to_f16(6)}}, &third);
  EXPECT_EQ(dw_sdk::f16_to_f32(got[0]), 3);
}

TEST(ReduceKernels, NaNWinsFromAnyPlace) {
  const double nan = std::nan("");
  for (const uint16_t reduce :
       {DW_REDUCE_MIN, DW_REDUCE_MAX, DW_REDUCE_SUM, DW_REDUCE_PRODUCT})
    for (const size_t n : {2u, 3u, 5u})
      for (size_t at = 0; at < n; ++at) {
        Inputs<double> inputs(n, std::vector<double>(9, 1));
        inputs[at].assign(9, nan);
        for (const double x : apply<double>(kF64, reduce, inputs))
          EXPECT_TRUE(std::isnan(x)) << reduce << ' ' << n << ' ' << at;
      }
}

TEST(ReduceKernels, InfinitiesOfBothSignsAreNaN) {
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_TRUE(std::isnan(
      apply<float>(kF32, DW_REDUCE_SUM, {{infinity}, {-infinity}})[0]));
  EXPECT_EQ(apply<float>(kF32, DW_REDUCE_MIN, {{infinity}, {-infinity}})[0],
            -infinity);
}

TEST(ReduceKernels, WhateverIsNotZeroIsTrue) {
  const Inputs<uint8_t> inputs = {{0, 2, 0, 4}, {0, 0, 8, 3}};
  using Bytes = std::vector<uint8_t>;
  for (const uint16_t reduce : {DW_REDUCE_SUM, DW_REDUCE_MAX, DW_REDUCE_BOR})
    EXPECT_EQ(apply(kBool, reduce, inputs), (Bytes{0, 1, 1, 1})) << reduce;
  for (const uint16_t reduce :
       {DW_REDUCE_PRODUCT, DW_REDUCE_MIN, DW_REDUCE_BAND})
    EXPECT_EQ(apply(kBool, reduce, inputs), (Bytes{0, 0, 0, 1})) << reduce;
  EXPECT_EQ(apply(kBool, DW_REDUCE_BXOR, inputs), (Bytes{0, 1, 1, 0}));
  EXPECT_EQ(apply<uint8_t>(kBool, DW_REDUCE_SUM, {{0, 2}}), (Bytes{0, 1}));
}

TEST(ReduceKernels, WhatIsNotThereIsNull) {
  EXPECT_EQ(reduce_kernel(kF32, DW_REDUCE_NONE), nullptr);
  EXPECT_EQ(reduce_kernel(kF32, DW_REDUCE_PREMUL_SUM + 1), nullptr);
  EXPECT_EQ(reduce_kernel(kF32, UINT16_MAX), nullptr);
  EXPECT_EQ(reduce_kernel({2, 32, 2}, DW_REDUCE_SUM), nullptr);
  EXPECT_EQ(reduce_kernel({2, 32, 0}, DW_REDUCE_SUM), nullptr);
  EXPECT_EQ(reduce_kernel({2, 8, 1}, DW_REDUCE_SUM), nullptr);
  EXPECT_EQ(reduce_kernel({5, 64, 1}, DW_REDUCE_SUM), nullptr);
  EXPECT_EQ(reduce_kernel(kBool, DW_REDUCE_AVG), nullptr);
  EXPECT_EQ(reduce_kernel(kF64, DW_REDUCE_BXOR), nullptr);
  EXPECT_EQ(reduce_kernel(kI32, DW_REDUCE_PREMUL_SUM), nullptr);
}

}  // namespace
}  // namespace distwrap::algo
