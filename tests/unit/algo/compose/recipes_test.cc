#include "algo/compose/recipes.h"

#include <gtest/gtest.h>

#include <vector>

namespace distwrap::algo::compose {
namespace {

constexpr uint64_t kU8 = DW_BIT(DW_DTYPE_U8);
constexpr uint64_t kF32 = DW_BIT(DW_DTYPE_F32);
constexpr uint64_t kF16 = DW_BIT(DW_DTYPE_F16);
constexpr uint32_t kNone = DW_BIT(DW_REDUCE_NONE);
constexpr uint32_t kSum = DW_BIT(DW_REDUCE_SUM);
constexpr uint32_t kHost = DW_BIT(DW_DEVICE_CPU);
constexpr uint64_t kMessages = DW_BIT(DW_OP_SEND) | DW_BIT(DW_OP_RECV);

Recipes over(const std::vector<dw_caps_row>& rows) {
  return Recipes(rows, DW_DEVICE_CPU);
}

dw_caps_row row(uint64_t ops, uint64_t dtypes, uint32_t reductions,
                uint32_t flags = DW_FLAG_CALLER_WAITS) {
  return {ops, dtypes, reductions, flags, kHost, 0, 0, 0};
}

TEST(RecipesTest, NothingMakesNothing) {
  const Recipes recipes = over({});
  for (uint16_t kind = 1; kind < DW_OP_SEND; ++kind)
    EXPECT_EQ(recipes
                  .find(kind, 0, DW_DTYPE_F32,
                        Recipes::reduces(kind) ? DW_REDUCE_SUM : 0)
                  .how,
              Recipes::kIsRefused)
        << kind;
  EXPECT_FALSE(recipes.complete());
}

TEST(RecipesTest, BytesByMessagesMakeEverything) {
  const Recipes recipes = over({row(kMessages, kU8, kNone)});
  for (uint16_t kind = 1; kind < Recipes::kKinds; ++kind)
    for (int dtype = 0; dtype < Recipes::kDTypes; ++dtype)
      for (uint16_t reduce = 0; reduce < Recipes::kReductions; ++reduce)
        for (const uint32_t flags : {0u, Recipes::flags_of(kind)}) {
          if (!Recipes::exists(kind, flags, dtype, reduce)) continue;
          EXPECT_NE(recipes.find(kind, flags, dtype, reduce).how,
                    Recipes::kIsRefused)
              << kind << " " << dtype << " " << reduce << " " << flags;
        }
  EXPECT_EQ(recipes.find(DW_OP_SEND, 0, DW_DTYPE_U8, 0).how,
            Recipes::kIsNative);
  EXPECT_EQ(recipes.find(DW_OP_SEND, 0, DW_DTYPE_F64, 0).how,
            Recipes::kComposed);
  EXPECT_EQ(recipes.find(DW_OP_BARRIER, 0, 0, 0).of, "send + recv");
}

TEST(RecipesTest, UnknownThingsAreRefused) {
  const Recipes recipes = over({row(~UINT64_C(0), ~UINT64_C(0), ~0u, ~0u)});
  const auto how = [&](uint16_t kind, uint32_t flags, int dtype,
                       uint16_t reduce) {
    return recipes.find(kind, flags, dtype, reduce).how;
  };
  EXPECT_EQ(how(DW_OP_BROADCAST, 0, DW_DTYPE_F32, 0), Recipes::kIsNative);
  EXPECT_EQ(how(0, 0, DW_DTYPE_F32, 0), Recipes::kIsRefused);
  EXPECT_EQ(how(DW_OP_PUT, 0, DW_DTYPE_F32, 0), Recipes::kIsRefused);
  EXPECT_EQ(how(999, 0, DW_DTYPE_F32, 0), Recipes::kIsRefused);
  EXPECT_EQ(how(DW_OP_BROADCAST, 0, -1, 0), Recipes::kIsRefused);
  EXPECT_EQ(how(DW_OP_BROADCAST, 0, Recipes::kDTypes, 0), Recipes::kIsRefused);
  EXPECT_EQ(how(DW_OP_BROADCAST, 0, DW_DTYPE_F32, DW_REDUCE_SUM),
            Recipes::kIsRefused);
  EXPECT_EQ(how(DW_OP_BROADCAST, 1u << 30, DW_DTYPE_F32, 0),
            Recipes::kIsRefused);
  EXPECT_EQ(how(DW_OP_BROADCAST, DW_FLAG_PER_RANK, DW_DTYPE_F32, 0),
            Recipes::kIsRefused);
  EXPECT_EQ(how(DW_OP_ALL_REDUCE, 0, DW_DTYPE_F32, 0), Recipes::kIsRefused);
  EXPECT_EQ(how(DW_OP_ALL_REDUCE, 0, DW_DTYPE_F32, 99), Recipes::kIsRefused);
  EXPECT_EQ(how(DW_OP_SCAN, 0, DW_DTYPE_F32, DW_REDUCE_AVG),
            Recipes::kIsRefused);
}

TEST(RecipesTest, RowsOfOtherMemoryOrSizesDoNotCount) {
  dw_caps_row device = row(kMessages, kU8, kNone);
  device.memory = DW_BIT(DW_DEVICE_CUDA);
  EXPECT_EQ(over({device}).find(DW_OP_BROADCAST, 0, DW_DTYPE_U8, 0).how,
            Recipes::kIsRefused);
  dw_caps_row small = row(kMessages, kU8, kNone);
  small.max_bytes = 100;
  EXPECT_EQ(over({small}).find(DW_OP_BROADCAST, 0, DW_DTYPE_U8, 0).how,
            Recipes::kIsRefused);
}

TEST(RecipesTest, OnADeviceNothingIsMadeOfMessages) {
  dw_caps_row device = row(kMessages, kU8, kNone);
  device.memory = DW_BIT(DW_DEVICE_CUDA);
  const std::vector<dw_caps_row> rows = {device};
  const Recipes recipes(rows, DW_DEVICE_CUDA);
  EXPECT_EQ(recipes.find(DW_OP_SEND, 0, DW_DTYPE_U8, 0).how,
            Recipes::kIsNative);
  EXPECT_EQ(recipes.find(DW_OP_SEND, 0, DW_DTYPE_F32, 0).how,
            Recipes::kIsRefused);
  EXPECT_EQ(recipes.find(DW_OP_BROADCAST, 0, DW_DTYPE_U8, 0).how,
            Recipes::kIsRefused);
}

constexpr uint32_t kInPlace = DW_FLAG_IN_PLACE;

Recipes over_device(std::vector<dw_caps_row> rows) {
  for (dw_caps_row& row : rows) row.memory = DW_BIT(DW_DEVICE_CUDA);
  return Recipes(rows, DW_DEVICE_CUDA);
}

TEST(RecipesTest, OnADeviceMovesGoAsAnotherType) {
  const Recipes recipes = over_device({row(DW_BIT(DW_OP_ALL_GATHER), kU8, kNone,
                                           DW_FLAG_CALLER_WAITS | kInPlace)});
  EXPECT_EQ(recipes.find(DW_OP_ALL_GATHER, 0, DW_DTYPE_U8, 0).how,
            Recipes::kIsNative);
  for (const uint32_t flags : {0u, kInPlace})
    EXPECT_EQ(recipes.find(DW_OP_ALL_GATHER, flags, DW_DTYPE_F64, 0).how,
              Recipes::kComposed);
  // These take a copy.
  EXPECT_EQ(recipes.find(DW_OP_ALL_GATHER, DW_FLAG_PARTS, DW_DTYPE_F64, 0).how,
            Recipes::kIsRefused);
  EXPECT_EQ(
      recipes.find(DW_OP_ALL_GATHER, DW_FLAG_PER_RANK, DW_DTYPE_U8, 0).how,
      Recipes::kIsRefused);
  for (const uint16_t kind : {DW_OP_GATHER, DW_OP_ALL_TO_ALL, DW_OP_SEND})
    EXPECT_EQ(recipes.find(kind, 0, DW_DTYPE_U8, 0).how, Recipes::kIsRefused)
        << kind;
}

TEST(RecipesTest, OnADeviceAllReduceIsReduceAndBroadcastInPlace) {
  const auto how = [](uint32_t flags) {
    const uint64_t ops = DW_BIT(DW_OP_REDUCE) | DW_BIT(DW_OP_BROADCAST);
    return over_device({row(ops, kF32, kSum, flags)})
        .find(DW_OP_ALL_REDUCE, 0, DW_DTYPE_F32, DW_REDUCE_SUM);
  };
  EXPECT_EQ(how(DW_FLAG_CALLER_WAITS | kInPlace).how, Recipes::kComposed);
  EXPECT_EQ(how(DW_FLAG_CALLER_WAITS | kInPlace).of, "reduce + broadcast");
  // Not in place the result would have to be copied.
  EXPECT_EQ(how(DW_FLAG_CALLER_WAITS).how, Recipes::kIsRefused);
}

TEST(RecipesTest, PartsOfThisAndThat) {
  const Recipes recipes =
      over({row(DW_BIT(DW_OP_REDUCE_SCATTER), kF32 | kF16, kSum),
            row(DW_BIT(DW_OP_ALL_GATHER), kF32 | kF16, kNone)});
  EXPECT_EQ(recipes.find(DW_OP_ALL_REDUCE, 0, DW_DTYPE_F32, DW_REDUCE_SUM).of,
            "reduce_scatter + all_gather");
  EXPECT_EQ(recipes
                .find(DW_OP_REDUCE_SCATTER, DW_FLAG_IN_PLACE, DW_DTYPE_F32,
                      DW_REDUCE_SUM)
                .of,
            "itself + a copy");
  EXPECT_EQ(
      recipes.find(DW_OP_REDUCE_SCATTER, 0, DW_DTYPE_F32, DW_REDUCE_AVG).of,
      "its sum + a division");
  EXPECT_EQ(recipes.find(DW_OP_GATHER, 0, DW_DTYPE_F32, 0).of,
            "all_gather + a copy");
  EXPECT_EQ(recipes.find(DW_OP_SCAN, 0, DW_DTYPE_F32, DW_REDUCE_SUM).of,
            "all_gather + kernel");
}

// A backend with only messages and windows may be called directly.
TEST(RecipesTest, MessagesBesideWindowsAreAllThereIs) {
  const dw_caps_row messages = row(kMessages, ~UINT64_C(0), kNone);
  const dw_caps_row windows = row(kWindowOps, ~UINT64_C(0), ~0u);
  EXPECT_TRUE(over({messages}).only_messages());
  EXPECT_TRUE(over({messages, windows}).only_messages());
  EXPECT_FALSE(over({windows}).only_messages());
  EXPECT_FALSE(over({row(kMessages, kU8, kNone), windows}).only_messages());
  EXPECT_FALSE(over({messages, row(DW_BIT(DW_OP_BROADCAST), kF32, kNone)})
                   .only_messages());
}

TEST(RecipesTest, CompleteIsWhatNeedsNothing) {
  const dw_caps_row all =
      row((DW_BIT(Recipes::kKinds) - 1) & ~UINT64_C(1), ~UINT64_C(0), ~0u, ~0u);
  EXPECT_TRUE(over({all}).complete());
  dw_caps_row less = all;
  less.flags &= ~DW_FLAG_IN_PLACE;
  EXPECT_FALSE(over({less}).complete());
  less = all;
  less.flags &= ~DW_FLAG_CALLER_WAITS;
  EXPECT_FALSE(over({less}).complete());
  less = all;
  less.ops &= ~DW_BIT(DW_OP_SCAN);
  EXPECT_FALSE(over({less}).complete());
}

TEST(RecipesTest, RowsWithLimitsHoldBetweenThem) {
  dw_caps_row limited = row(DW_BIT(DW_OP_ALL_REDUCE), kF32, kSum,
                            DW_FLAG_CALLER_WAITS | DW_FLAG_IN_PLACE);
  limited.min_bytes = 1024;
  limited.max_bytes = 4096;
  const Recipes recipes = over({row(kMessages, kU8, kNone), limited});
  const auto native = [&](uint64_t bytes, uint32_t flags) {
    return recipes.native_at(DW_OP_ALL_REDUCE, flags, DW_DTYPE_F32,
                             DW_REDUCE_SUM, bytes);
  };
  EXPECT_FALSE(native(1023, 0));
  EXPECT_TRUE(native(1024, 0));
  EXPECT_TRUE(native(4096, DW_FLAG_IN_PLACE));
  EXPECT_FALSE(native(4097, 0));
  EXPECT_FALSE(recipes.native_at(DW_OP_ALL_REDUCE, 0, DW_DTYPE_F16,
                                 DW_REDUCE_SUM, 2048));
  EXPECT_EQ(recipes.find(DW_OP_ALL_REDUCE, 0, DW_DTYPE_F32, DW_REDUCE_SUM).how,
            Recipes::kComposed)
      << "of any other size";
  // A rank that calls in place would compose what the others do not.
  limited.flags = DW_FLAG_CALLER_WAITS;
  EXPECT_FALSE(
      over({row(kMessages, kU8, kNone), limited})
          .native_at(DW_OP_ALL_REDUCE, 0, DW_DTYPE_F32, DW_REDUCE_SUM, 2048));
}

TEST(RecipesTest, ANegativeScoreIsTheLastResort) {
  dw_caps_row slow = row(DW_BIT(DW_OP_ALL_REDUCE), kF32, kSum);
  slow.score = -1;
  const auto how = [](const Recipes& recipes) {
    return recipes.find(DW_OP_ALL_REDUCE, 0, DW_DTYPE_F32, DW_REDUCE_SUM).how;
  };
  EXPECT_EQ(how(over({slow})), Recipes::kIsNative);
  EXPECT_EQ(how(over({row(kMessages, kU8, kNone), slow})), Recipes::kComposed);
  slow.score = 0;
  EXPECT_EQ(how(over({row(kMessages, kU8, kNone), slow})), Recipes::kIsNative);
}

}  // namespace
}  // namespace distwrap::algo::compose
