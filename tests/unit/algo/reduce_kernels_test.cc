#include "algo/reduce_kernels.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace distwrap::algo {
namespace {

constexpr dw_dtype kF32{2, 32, 1};
constexpr dw_dtype kI64{0, 64, 1};

template <class T>
std::vector<T> apply(dw_dtype dtype, uint16_t reduce, std::vector<T> a,
                     std::vector<T> b) {
  std::vector<T> out(a.size());
  reduce_kernel(dtype, reduce)(out.data(), a.data(), b.data(), a.size());
  return out;
}

TEST(ReduceKernels, Sums) {
  EXPECT_EQ(apply<float>(kF32, DW_REDUCE_SUM, {1, 2.5}, {3, -1}),
            (std::vector<float>{4, 1.5}));
  EXPECT_EQ(apply<int64_t>(kI64, DW_REDUCE_SUM, {1, -7}, {3, 2}),
            (std::vector<int64_t>{4, -5}));
}

TEST(ReduceKernels, IntegersWrap) {
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  constexpr int64_t kMin = std::numeric_limits<int64_t>::min();
  EXPECT_EQ(apply<int64_t>(kI64, DW_REDUCE_SUM, {kMax}, {1}),
            (std::vector<int64_t>{kMin}));
}

TEST(ReduceKernels, MaximumOfNumbers) {
  EXPECT_EQ(apply<float>(kF32, DW_REDUCE_MAX, {1, -2, 3}, {2, -3, 3}),
            (std::vector<float>{2, -2, 3}));
  EXPECT_EQ(apply<int64_t>(kI64, DW_REDUCE_MAX, {1, -2}, {2, -3}),
            (std::vector<int64_t>{2, -2}));
}

TEST(ReduceKernels, NaNWinsFromEitherSide) {
  const float nan = std::nanf("");
  for (const float x : apply<float>(kF32, DW_REDUCE_MAX, {nan, 1}, {1, nan}))
    EXPECT_TRUE(std::isnan(x));
}

TEST(ReduceKernels, InPlaceOnEitherSide) {
  std::vector<float> a{1, 2}, b{10, 20};
  reduce_kernel(kF32, DW_REDUCE_SUM)(a.data(), a.data(), b.data(), 2);
  EXPECT_EQ(a, (std::vector<float>{11, 22}));
  reduce_kernel(kF32, DW_REDUCE_SUM)(b.data(), a.data(), b.data(), 2);
  EXPECT_EQ(b, (std::vector<float>{21, 42}));
}

TEST(ReduceKernels, WhatIsNotThereIsNull) {
  EXPECT_EQ(reduce_kernel(kF32, DW_REDUCE_PRODUCT), nullptr);
  EXPECT_EQ(reduce_kernel({2, 16, 1}, DW_REDUCE_SUM), nullptr);
  EXPECT_EQ(reduce_kernel({2, 32, 2}, DW_REDUCE_SUM), nullptr);
  EXPECT_EQ(reduce_kernel(kF32, DW_REDUCE_NONE), nullptr);
}

}  // namespace
}  // namespace distwrap::algo
