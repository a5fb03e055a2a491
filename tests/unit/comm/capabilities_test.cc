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
  const Capabilities caps(rows, kCpu);
  EXPECT_TRUE(caps.supports(DW_OP_ALL_REDUCE, DType::kF32, DW_REDUCE_SUM));
  EXPECT_FALSE(caps.supports(DW_OP_ALL_REDUCE, DType::kF32, DW_REDUCE_MAX));
  EXPECT_TRUE(caps.supports(DW_OP_ALL_REDUCE, DType::kI64, DW_REDUCE_MAX));
  EXPECT_FALSE(caps.supports(DW_OP_ALL_REDUCE, DType::kF32, DW_REDUCE_NONE));
  EXPECT_TRUE(caps.supports(DW_OP_ALL_GATHER, DType::kF32, DW_REDUCE_NONE));
  EXPECT_FALSE(caps.supports(DW_OP_ALL_GATHER, DType::kI64, DW_REDUCE_NONE));
  EXPECT_TRUE(caps.supports(DW_OP_BARRIER, DType::kU8, DW_REDUCE_NONE));
}

TEST(Capabilities, OtherMemoryDoesNotCount) {
  dw_caps_row other = row(DW_BIT(DW_OP_BARRIER), 0, 0);
  other.memory = 1u << DW_DEVICE_CUDA;
  const std::vector<dw_caps_row> rows = {other};
  EXPECT_FALSE(Capabilities(rows, kCpu).supports_kind(DW_OP_BARRIER));
  EXPECT_TRUE(
      Capabilities(rows, Device{DW_DEVICE_CUDA}).supports_kind(DW_OP_BARRIER));
}

TEST(Capabilities, RowsWithLimitsHoldBetweenThem) {
  dw_caps_row limited =
      row(DW_BIT(DW_OP_ALL_REDUCE), DW_BIT(DW_DTYPE_F32), 1u << DW_REDUCE_SUM);
  limited.min_bytes = 8;
  limited.max_bytes = 64;
  const std::vector<dw_caps_row> rows = {limited};
  const Capabilities caps(rows, kCpu);
  const auto supports = [&](uint64_t bytes, DType dtype, uint16_t reduce) {
    return caps.at(DW_OP_ALL_REDUCE, dtype, reduce, bytes)
        .supports(DW_OP_ALL_REDUCE, dtype, reduce);
  };
  EXPECT_FALSE(supports(4, DType::kF32, DW_REDUCE_SUM));
  EXPECT_TRUE(supports(8, DType::kF32, DW_REDUCE_SUM));
  EXPECT_TRUE(supports(64, DType::kF32, DW_REDUCE_SUM));
  EXPECT_FALSE(supports(68, DType::kF32, DW_REDUCE_SUM));
  EXPECT_FALSE(supports(64, DType::kF64, DW_REDUCE_SUM));
  EXPECT_FALSE(supports(64, DType::kF32, DW_REDUCE_MAX));
  EXPECT_FALSE(caps.supports_kind(DW_OP_ALL_REDUCE)) << "of any size";
}

}  // namespace
}  // namespace distwrap::comm
