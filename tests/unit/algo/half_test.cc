#include "sdk/half.h"

#include "half_reference.h"

#include <gtest/gtest.h>

#include <bit>
#include <limits>

namespace distwrap::algo {
namespace {

struct Half {
  testing::HalfFormat format;
  float (*widen)(uint16_t);
  uint16_t (*narrow)(float);
  uint16_t largest;  // finite
};

class HalfTest : public ::testing::TestWithParam<Half> {};

// Equal to the last bit, including the sign of zero; NaNs of the same sign are
// equal.
bool same(double a, double b) {
  if (std::signbit(a) != std::signbit(b)) return false;
  return std::isnan(a) ? std::isnan(b) : a == b;
}

TEST_P(HalfTest, EveryValueWidensExactly) {
  const Half& half = GetParam();
  for (uint32_t bits = 0; bits <= 0xffff; ++bits) {
    const uint16_t h = static_cast<uint16_t>(bits);
    ASSERT_TRUE(same(half.widen(h), half.format.value(h))) << bits;
  }
}

TEST_P(HalfTest, EveryValueComesBack) {
  const Half& half = GetParam();
  for (uint32_t bits = 0; bits <= 0xffff; ++bits) {
    const uint16_t h = static_cast<uint16_t>(bits);
    const float value = half.widen(h);
    const uint16_t back = half.narrow(value);
    if (std::isnan(value)) {
      const uint16_t quiet =
          static_cast<uint16_t>(1 << (half.format.mantissa_bits - 1));
      ASSERT_EQ(back, h | quiet);
    } else {
      ASSERT_EQ(back, h);
    }
  }
}

// Tests around the middle between every value and the next, where rounding
// changes.
TEST_P(HalfTest, RoundsToNearestEven) {
  const Half& half = GetParam();
  const float past = std::numeric_limits<float>::infinity();
  for (uint32_t bits = 0; bits <= half.largest; ++bits) {
    const uint16_t low = static_cast<uint16_t>(bits);
    const uint16_t high = static_cast<uint16_t>(bits + 1);
    const double top = low == half.largest ? std::ldexp(1, half.format.bias + 1)
                                           : half.format.value(high);
    const float middle = static_cast<float>((half.format.value(low) + top) / 2);
    ASSERT_EQ(half.narrow(middle), low % 2 == 0 ? low : high) << bits;
    ASSERT_EQ(half.narrow(std::nextafter(middle, 0.0f)), low) << bits;
    ASSERT_EQ(half.narrow(std::nextafter(middle, past)), high) << bits;
    ASSERT_EQ(half.narrow(-middle), 0x8000 | (low % 2 == 0 ? low : high));
    ASSERT_EQ(half.narrow(-std::nextafter(middle, 0.0f)), 0x8000 | low);
    ASSERT_EQ(half.narrow(-std::nextafter(middle, past)), 0x8000 | high);
  }
}

TEST_P(HalfTest, SampleOfAllFloats) {
  constexpr uint64_t kStep = 12289;  // a prime
  const Half& half = GetParam();
  for (uint64_t bits = 0; bits <= UINT32_MAX; bits += kStep) {
    const float value = std::bit_cast<float>(static_cast<uint32_t>(bits));
    ASSERT_TRUE(
        same(half.widen(half.narrow(value)), half.format.nearest(value)))
        << bits;
  }
}

TEST_P(HalfTest, TheEndsOfF32) {
  const Half& half = GetParam();
  using Limits = std::numeric_limits<float>;
  const uint16_t infinity = static_cast<uint16_t>(half.largest + 1);
  EXPECT_EQ(half.narrow(Limits::max()), infinity);
  EXPECT_EQ(half.narrow(-Limits::max()), 0x8000 | infinity);
  EXPECT_EQ(half.narrow(Limits::infinity()), infinity);
  EXPECT_EQ(half.narrow(Limits::denorm_min()), 0);
  EXPECT_EQ(half.narrow(-Limits::denorm_min()), 0x8000);
  // The whole payload is in the bits that are cut off.
  const uint16_t nan = half.narrow(std::bit_cast<float>(0x7f800001u));
  EXPECT_TRUE(std::isnan(half.widen(nan)));
}

INSTANTIATE_TEST_SUITE_P(
    All, HalfTest,
    ::testing::Values(Half{testing::kF16Format, dw_sdk::f16_to_f32,
                           dw_sdk::f32_to_f16, 0x7bff},
                      Half{testing::kBF16Format, dw_sdk::bf16_to_f32,
                           dw_sdk::f32_to_bf16, 0x7f7f}),
    [](const auto& test) {
      return test.param.largest == 0x7bff ? "f16" : "bf16";
    });

}  // namespace
}  // namespace distwrap::algo
