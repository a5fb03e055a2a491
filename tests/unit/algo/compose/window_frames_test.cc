// The checks of a peer's frame for a window, before anything is done with it.
#include "algo/windows/frame.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace distwrap::algo::windows {
namespace {

constexpr uint64_t kPart = 4096;

FrameHeader head(What what, uint64_t bytes, uint64_t wanted,
                 uint8_t bits = 64) {
  FrameHeader head = {};
  head.what = what;
  head.bytes = bytes;
  head.wanted = wanted;
  head.dtype_bits = bits;
  return head;
}

TEST(WindowFrames, WhatRanksSendIsSound) {
  EXPECT_TRUE(head(What::kPut, kPart, 0).is_sound(kPart));
  EXPECT_TRUE(head(What::kAccumulate, 80, 0).is_sound(kPart));
  EXPECT_TRUE(head(What::kGet, 0, kPart).is_sound(kPart));
  EXPECT_TRUE(head(What::kGet, 0, 0).is_sound(0));
  EXPECT_TRUE(head(What::kFetchOp, 80, 80).is_sound(kPart));
  EXPECT_TRUE(head(What::kCompareSwap, 16, 8).is_sound(kPart));
  EXPECT_TRUE(head(What::kCompareSwap, 2, 1, 8).is_sound(kPart));
  EXPECT_TRUE(head(What::kFlush, 0, 0).is_sound(kPart));
}

// Each frame would write beyond the result, or read data that do not exist.
TEST(WindowFrames, SizesThatDoNotBelongTogetherAreNot) {
  EXPECT_FALSE(head(What::kGet, 0, kPart + 1).is_sound(kPart));
  EXPECT_FALSE(head(What::kGet, 8, 8).is_sound(kPart));
  EXPECT_FALSE(head(What::kFetchOp, 88, 80).is_sound(kPart));
  EXPECT_FALSE(head(What::kFetchOp, kPart + 8, kPart + 8).is_sound(kPart));
  EXPECT_FALSE(head(What::kFetchOp, 80, 80, 4).is_sound(kPart));
  EXPECT_FALSE(head(What::kCompareSwap, 8, 8).is_sound(kPart));
  EXPECT_FALSE(head(What::kCompareSwap, 16, 4).is_sound(kPart));
  EXPECT_FALSE(head(What::kCompareSwap, 0, 0, 0).is_sound(kPart));
  EXPECT_FALSE(head(What::kPut, 8, 8).is_sound(kPart));
  EXPECT_FALSE(head(What::kSignal, 0, 8).is_sound(kPart));
}

}  // namespace
}  // namespace distwrap::algo::windows
