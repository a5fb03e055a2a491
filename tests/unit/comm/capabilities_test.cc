#include "comm/capabilities.h"

#include <gtest/gtest.h>

#include <vector>

namespace distwrap::comm {
namespace {

dw_caps_row row(uint64_t ops, uint64_t dtypes, uint32_t reductions) {
  return {ops, dtypes, reductions, 0, 1u << DW_DEVICE_CPU, 0, 0, 0};
}

TEST(Capabilities, WhatNoRowPromisesIsRefused) {
  const Capabilities none;
  EXPECT_FALSE(none.supports_kind(DW_OP_BARRIER));
  EXPECT_FALSE(none.supports(DW_OP_ALL_REDUCE, DType::kF32, DW_REDUCE_SUM));
}

TEST(Capabilities, RowsAddUpWithoutMixing) {
  const std::vector<dw_caps_row> rows = {
      row(DW_BIT(DW_OP_ALL_REDUCE), DW_BIT(DW_DTYPE_F32), 1u << DW_REDUCE_SUM),
      row(DW_BIT(DW_OP_ALL_REDUCE), DW_BIT(DW_DTYPE_I64), 1u << DW_REDUCE_MAX),
      row(DW_BIT(DW_OP_ALL_GATHER), DW_BIT(DW_DTYPE_F32), 0),
      row(DW_BIT(DW_OP_BARRIER), 0, 0)};
  const Capabilities caps(rows, DW_DEVICE_CPU);
  EXPECT_TRUE(caps.supports(DW_OP_ALL_REDUCE, DType::kF32, DW_REDUCE_SUM));
  EXPECT_FALSE(caps.supports(DW_OP_ALL_REDUCE, DType::kF32, DW_REDUCE_MAX));
  EXPECT_TRUE(caps.supports(DW_OP_ALL_REDUCE, DType::kI64, DW_REDUCE_MAX));
  EXPECT_FALSE(caps.supports(DW_OP_ALL_REDUCE, DType::kF32, DW_REDUCE_NONE));
  EXPECT_TRUE(caps.supports(DW_OP_ALL_GATHER, DType::kF32, DW_REDUCE_NONE));
  EXPECT_FALSE(caps.supports(DW_OP_ALL_GATHER, DType::kI64, DW_REDUCE_NONE));
  EXPECT_TRUE(caps.supports(DW_OP_BARRIER, DType::kU8, DW_REDUCE_NONE));
}

TEST(Capabilities, OtherMemoryAndSizeBoundsDoNotCount) {
  dw_caps_row other = row(DW_BIT(DW_OP_BARRIER), 0, 0);
  other.memory = 1u << DW_DEVICE_CUDA;
  dw_caps_row bounded = row(DW_BIT(DW_OP_BARRIER), 0, 0);
  bounded.max_bytes = 64;
  const std::vector<dw_caps_row> rows = {other, bounded};
  EXPECT_FALSE(Capabilities(rows, DW_DEVICE_CPU).supports_kind(DW_OP_BARRIER));
  EXPECT_TRUE(Capabilities(rows, DW_DEVICE_CUDA).supports_kind(DW_OP_BARRIER));
}

}  // namespace
}  // namespace distwrap::comm
