// Conversion of 16-bit floats to and from f32: IEEE binary16 (f16) and bfloat16
// (bf16).
//
// The widening is exact; the narrowing rounds to nearest even. Too large values
// become infinity, and a NaN stays a (quiet) NaN of its sign. The code has no
// branches, so that a loop over it becomes vector code, and no arithmetic on
// subnormal f32, so that a thread which flushes those to zero gets the same
// results. It is always inlined, so that each file compiles it for the
// processors that the file is for. C++ only.
#ifndef DISTWRAP_PLUGINS_SDK_HALF_H_
#define DISTWRAP_PLUGINS_SDK_HALF_H_

#include <bit>
#include <cstdint>

namespace dw_sdk {

[[gnu::always_inline]] inline float f16_to_f32(uint16_t half) {
  const uint32_t sign = (half & 0x8000u) << 16;
  const uint32_t size = half & 0x7fffu;
  // f16 has 10 mantissa bits and the exponent bias 15; f32 has 23 and 127.
  const uint32_t normal = (size << 13) + ((127u - 15u) << 23);
  const uint32_t special = (size << 13) | 0x7f800000u;
  // A subnormal f16 counts units of 2^-24.
  const uint32_t subnormal = std::bit_cast<uint32_t>(
      static_cast<float>(static_cast<int32_t>(size)) * 0x1p-24f);
  const uint32_t large = size >= 0x7c00u ? special : normal;
  return std::bit_cast<float>(sign | (size < 0x0400u ? subnormal : large));
}

[[gnu::always_inline]] inline uint16_t f32_to_f16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t size = bits & 0x7fffffffu;
  // Adds half a unit, or one less when the last kept bit is even. A carry goes
  // into the exponent, which is correct.
  const uint32_t rebiased = size - ((127u - 15u) << 23);
  const uint32_t normal = (rebiased + 0xfffu + (rebiased >> 13 & 1u)) >> 13;
  // Near 0.5, f32 also has units of 2^-24, so the addition rounds.
  const uint32_t subnormal =
      std::bit_cast<uint32_t>(std::bit_cast<float>(size) + 0.5f) -
      std::bit_cast<uint32_t>(0.5f);
  const uint32_t nan = 0x7e00u | (size >> 13 & 0x3ffu);
  const uint32_t finite = size < 0x38800000u ? subnormal : normal;
  const uint32_t number = size >= 0x477ff000u ? 0x7c00u : finite;  // 65520
  return static_cast<uint16_t>((bits >> 16 & 0x8000u) |
                               (size > 0x7f800000u ? nan : number));
}

[[gnu::always_inline]] inline float bf16_to_f32(uint16_t brain) {
  return std::bit_cast<float>(static_cast<uint32_t>(brain) << 16);
}

[[gnu::always_inline]] inline uint16_t f32_to_bf16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t rounded = (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
  const uint32_t nan = bits >> 16 | 0x0040u;
  return static_cast<uint16_t>((bits & 0x7fffffffu) > 0x7f800000u ? nan
                                                                  : rounded);
}

}  // namespace dw_sdk

#endif  // DISTWRAP_PLUGINS_SDK_HALF_H_
