// Conversions of many against conversions of one, which half_test proves.
#include "algo/half_block.h"

#include "algo/half.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <vector>

namespace distwrap::algo {
namespace {

struct Variant {
  const char* name;
  const HalfBlock& (*block)();
  float (*widen)(uint16_t);
  uint16_t (*narrow)(float);
};

class HalfBlockTest : public ::testing::TestWithParam<Variant> {};

// Lengths that leave every remainder of a vector.
constexpr uint64_t kChunk = 61;

TEST_P(HalfBlockTest, WidensEveryValue) {
  const Variant& variant = GetParam();
  std::vector<uint16_t> halves(65536);
  for (size_t i = 0; i < halves.size(); ++i)
    halves[i] = static_cast<uint16_t>(i);
  std::vector<float> floats(halves.size() + 1, -1);
  for (uint64_t at = 0; at < halves.size(); at += kChunk)
    variant.block().widen(&floats[at], &halves[at],
                          std::min<uint64_t>(kChunk, halves.size() - at));
  for (size_t i = 0; i < halves.size(); ++i) {
    const float want = variant.widen(halves[i]);
    if (std::isnan(want))
      ASSERT_TRUE(std::isnan(floats[i])) << i;
    else
      ASSERT_EQ(std::bit_cast<uint32_t>(floats[i]),
                std::bit_cast<uint32_t>(want))
          << i;
  }
  EXPECT_EQ(floats.back(), -1);
}

TEST_P(HalfBlockTest, NarrowsASampleOfAllFloats) {
  constexpr uint64_t kStep = 24593;  // a prime
  const Variant& variant = GetParam();
  std::vector<float> floats;
  for (uint64_t bits = 0; bits <= UINT32_MAX; bits += kStep)
    floats.push_back(std::bit_cast<float>(static_cast<uint32_t>(bits)));
  // Where rounding turns: between all f16 values, and next to those places.
  for (uint32_t i = 0; i < 0x7c00; ++i) {
    const float middle = (f16_to_f32(static_cast<uint16_t>(i)) +
                          f16_to_f32(static_cast<uint16_t>(i + 1))) /
                         2;
    for (const float x : {middle, std::nextafter(middle, 0.0f),
                          std::nextafter(middle, 1e30f), -middle})
      floats.push_back(x);
  }
  std::vector<uint16_t> halves(floats.size() + 1, 0x1234);
  for (uint64_t at = 0; at < floats.size(); at += kChunk)
    variant.block().narrow(&halves[at], &floats[at],
                           std::min<uint64_t>(kChunk, floats.size() - at));
  for (size_t i = 0; i < floats.size(); ++i)
    ASSERT_EQ(halves[i], variant.narrow(floats[i])) << floats[i];
  EXPECT_EQ(halves.back(), 0x1234);
}

INSTANTIATE_TEST_SUITE_P(
    All, HalfBlockTest,
    ::testing::Values(Variant{"f16", f16_block, f16_to_f32, f32_to_f16},
                      Variant{"bf16", bf16_block, bf16_to_f32, f32_to_bf16},
                      Variant{"plain_f16",
                              []() -> const HalfBlock& { return kPlainF16; },
                              f16_to_f32, f32_to_f16},
                      Variant{"plain_bf16",
                              []() -> const HalfBlock& { return kPlainBF16; },
                              bf16_to_f32, f32_to_bf16}),
    [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace distwrap::algo
