// 16-bit floats as f32 and back: IEEE binary16 (f16) and bfloat16 (bf16).
//
// Widening is exact; narrowing rounds to nearest even, once. The code has no
// branches, so that loops over it become vector code.
#ifndef DISTWRAP_OPS_CPU_HALF_H_
#define DISTWRAP_OPS_CPU_HALF_H_

#include <bit>
#include <cstdint>

namespace distwrap::cpu {

[[gnu::always_inline]] inline float widen_f16(uint16_t half) {
  const uint32_t sign = (half & 0x8000u) << 16;
  const uint32_t size = half & 0x7fffu;
  const uint32_t normal = (size << 13) + ((127u - 15u) << 23);
  const uint32_t special = (size << 13) | 0x7f800000u;
  // A subnormal f16 counts units of 2^-24.
  const uint32_t subnormal = std::bit_cast<uint32_t>(
      static_cast<float>(static_cast<int32_t>(size)) * 0x1p-24f);
  const uint32_t large = size >= 0x7c00u ? special : normal;
  return std::bit_cast<float>(sign | (size < 0x0400u ? subnormal : large));
}

[[gnu::always_inline]] inline uint16_t narrow_f16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t size = bits & 0x7fffffffu;
  // Half a unit is added, or a little less when the last kept bit is even. A
  // carry goes into the exponent, which is right.
  const uint32_t rebiased = size - ((127u - 15u) << 23);
  const uint32_t normal = (rebiased + 0xfffu + (rebiased >> 13 & 1u)) >> 13;
  // Near 0.5 f32 also has units of 2^-24, so the addition rounds.
  const uint32_t subnormal =
      std::bit_cast<uint32_t>(std::bit_cast<float>(size) + 0.5f) -
      std::bit_cast<uint32_t>(0.5f);
  const uint32_t nan = 0x7e00u | (size >> 13 & 0x3ffu);
  const uint32_t finite = size < 0x38800000u ? subnormal : normal;
  const uint32_t number = size >= 0x477ff000u ? 0x7c00u : finite;  // 65520
  return static_cast<uint16_t>((bits >> 16 & 0x8000u) |
                               (size > 0x7f800000u ? nan : number));
}

[[gnu::always_inline]] inline float widen_bf16(uint16_t brain) {
  return std::bit_cast<float>(static_cast<uint32_t>(brain) << 16);
}

[[gnu::always_inline]] inline uint16_t narrow_bf16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t rounded = (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
  const uint32_t nan = bits >> 16 | 0x0040u;
  return static_cast<uint16_t>((bits & 0x7fffffffu) > 0x7f800000u ? nan
                                                                  : rounded);
}

// A double as the f32 from which a second rounding to 16 bits gives what one
// rounding would: truncated, and odd where it is not exact.
inline float round_to_odd(double value) {
  const float near = static_cast<float>(value);
  const double back = static_cast<double>(near);
  if (back == value || value != value) return near;
  uint32_t bits = std::bit_cast<uint32_t>(near);
  // The neighbour towards zero, unless `near` is that already.
  if ((back > value) == (value > 0)) --bits;
  return std::bit_cast<float>(bits | 1u);
}

}  // namespace distwrap::cpu

#endif  // DISTWRAP_OPS_CPU_HALF_H_
