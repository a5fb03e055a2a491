// 16-bit floats as f32 in the registers of a variant. The results equal those
// of half.h, except that a signalling NaN may become quiet in both directions.
#ifndef DISTWRAP_SRC_ALGO_KERNELS_HALF_LANES_H_
#define DISTWRAP_SRC_ALGO_KERNELS_HALF_LANES_H_

#include "algo/kernels/element.h"

#include <cstdint>
#include <cstring>

namespace distwrap::algo::kernels::DW_VARIANT {

// The number of f32 in a register.
inline constexpr uint64_t kLanes = DW_VARIANT_BYTES / sizeof(float);

using Floats [[gnu::vector_size(DW_VARIANT_BYTES)]] = float;
using Words [[gnu::vector_size(DW_VARIANT_BYTES)]] = uint32_t;

// Two registers of f32, the elements of one register of storage.
struct Pair {
  Floats first, second;
};
inline constexpr uint64_t kPair = 2 * kLanes;

// Even elements are in one register and odd ones in the other, so nothing moves
// across lanes.
inline constexpr uint32_t kUpper = 0xffff0000u;

inline Pair load_pair(BF16, const uint16_t* at) {
  Words words;
  std::memcpy(&words, at, sizeof words);
  return {__builtin_bit_cast(Floats, words << 16),
          __builtin_bit_cast(Floats, words & kUpper)};
}

// The result is in the upper half of each word.
template <class AnyWords, class AnyFloats>
AnyWords round_bf16(AnyFloats floats) {
  const AnyWords bits = __builtin_bit_cast(AnyWords, floats);
  const AnyWords rounded = bits + 0x7fffu + (bits >> 16 & 1u);
  return floats != floats ? bits | 0x00400000u : rounded;
}

inline void store_rounded(uint16_t* at, Pair pair) {
  const Words words = round_bf16<Words>(pair.first) >> 16 |
                      (round_bf16<Words>(pair.second) & kUpper);
  std::memcpy(at, &words, sizeof words);
}

#ifdef DW_VARIANT_BF16

// The processor's own conversion treats subnormal numbers as zero, so vectors
// with subnormals are converted in software.
inline bool has_subnormal(Floats floats) {
  constexpr int kSubnormal = 0x20;
  return _mm512_fpclass_ps_mask(floats, kSubnormal) != 0;
}

inline void store_pair(BF16, uint16_t* at, Pair pair) {
  if (has_subnormal(pair.first) || has_subnormal(pair.second)) [[unlikely]]
    return store_rounded(at, pair);
  // Interleaves two registers.
  alignas(64) static constexpr uint16_t kInTurns[kPair] = {
      0, 16, 1, 17, 2,  18, 3,  19, 4,  20, 5,  21, 6,  22, 7,  23,
      8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
  const __m512i both =
      __builtin_bit_cast(__m512i, _mm512_cvtne2ps_pbh(pair.second, pair.first));
  _mm512_storeu_si512(
      at, _mm512_permutexvar_epi16(_mm512_load_si512(kInTurns), both));
}

#else

inline void store_pair(BF16, uint16_t* at, Pair pair) {
  store_rounded(at, pair);
}

#endif

#if DW_VARIANT_BYTES == 64

// With the intrinsics without a mask, gcc warns of an uninitialized value
// inside them.
inline constexpr __mmask16 kAll = 0xffff;

inline Pair load_pair(F16, const uint16_t* at) {
  const auto* const halves = reinterpret_cast<const __m256i*>(at);
  return {_mm512_maskz_cvtph_ps(kAll, _mm256_loadu_si256(halves)),
          _mm512_maskz_cvtph_ps(kAll, _mm256_loadu_si256(halves + 1))};
}

inline void store_pair(F16, uint16_t* at, Pair pair) {
  auto* const halves = reinterpret_cast<__m256i*>(at);
  _mm256_storeu_si256(halves, _mm512_maskz_cvtps_ph(kAll, pair.first,
                                                    _MM_FROUND_TO_NEAREST_INT));
  _mm256_storeu_si256(
      halves + 1,
      _mm512_maskz_cvtps_ph(kAll, pair.second, _MM_FROUND_TO_NEAREST_INT));
}

#elif DW_VARIANT_BYTES == 32

inline Pair load_pair(F16, const uint16_t* at) {
  const auto* const halves = reinterpret_cast<const __m128i*>(at);
  return {_mm256_cvtph_ps(_mm_loadu_si128(halves)),
          _mm256_cvtph_ps(_mm_loadu_si128(halves + 1))};
}

inline void store_pair(F16, uint16_t* at, Pair pair) {
  auto* const halves = reinterpret_cast<__m128i*>(at);
  _mm_storeu_si128(halves,
                   _mm256_cvtps_ph(pair.first, _MM_FROUND_TO_NEAREST_INT));
  _mm_storeu_si128(halves + 1,
                   _mm256_cvtps_ph(pair.second, _MM_FROUND_TO_NEAREST_INT));
}

#else

// Does the same as half.h in each lane; an element is the lower half of a word.
// Comparisons are signed, because few processors compare unsigned words and no
// value is that large.
using Ints [[gnu::vector_size(DW_VARIANT_BYTES)]] = int32_t;
inline Ints above(Words words, int32_t limit) {
  return __builtin_bit_cast(Ints, words) > limit;
}

inline Floats widen_f16(Words bits) {
  const Words size = bits & 0x7fffu;
  const Words normal = (size << 13) + ((127u - 15u) << 23);
  const Words special = (size << 13) | 0x7f800000u;
  // From 2^-14 to twice that, f32 has units of 2^-24 or finer, so the added
  // value is exact.
  const Words least = Words{} + ((127u - 14u) << 23);
  const Words subnormal = __builtin_bit_cast(
      Words, __builtin_bit_cast(Floats, (size << 13) + least) -
                 __builtin_bit_cast(Floats, least));
  const Words large = above(size, 0x7bff) ? special : normal;
  const Words number = above(size, 0x03ff) ? large : subnormal;
  return __builtin_bit_cast(Floats, (bits & 0x8000u) << 16 | number);
}

inline Words narrow_f16(Floats floats) {
  const Words bits = __builtin_bit_cast(Words, floats);
  const Words size = bits & 0x7fffffffu;
  const Words rebiased = size - ((127u - 15u) << 23);
  const Words normal = (rebiased + 0xfffu + (rebiased >> 13 & 1u)) >> 13;
  const Words half = Words{} + (126u << 23);  // 0.5
  const Words subnormal =
      __builtin_bit_cast(Words, __builtin_bit_cast(Floats, size) +
                                    __builtin_bit_cast(Floats, half)) -
      half;
  const Words nan = 0x7e00u | (size >> 13 & 0x3ffu);
  const Words finite = above(size, 0x387fffff) ? normal : subnormal;
  const Words number = above(size, 0x477fefff) ? Words{} + 0x7c00u : finite;
  return (bits >> 16 & 0x8000u) | (above(size, 0x7f800000) ? nan : number);
}

inline Pair load_pair(F16, const uint16_t* at) {
  Words words;
  std::memcpy(&words, at, sizeof words);
  return {widen_f16(words & 0xffffu), widen_f16(words >> 16)};
}

inline void store_pair(F16, uint16_t* at, Pair pair) {
  const Words words = narrow_f16(pair.first) | narrow_f16(pair.second) << 16;
  std::memcpy(at, &words, sizeof words);
}

#endif

// Four elements in one word of memory: a short call, or the rest of a longer
// one.
inline constexpr uint64_t kFew = 4;
using FewFloats [[gnu::vector_size(kFew * sizeof(float))]] = float;
using FewWords [[gnu::vector_size(kFew * sizeof(float))]] = uint32_t;
using FewHalves [[gnu::vector_size(kFew * sizeof(uint16_t))]] = uint16_t;

inline FewWords spread(uint64_t few) {
  return __builtin_convertvector(__builtin_bit_cast(FewHalves, few), FewWords);
}

inline uint64_t gathered(FewWords words) {
  return __builtin_bit_cast(uint64_t,
                            __builtin_convertvector(words, FewHalves));
}

inline FewFloats widen_few(BF16, uint64_t few) {
  return __builtin_bit_cast(FewFloats, spread(few) << 16);
}

inline uint64_t narrow_few(BF16, FewFloats few) {
  return gathered(round_bf16<FewWords>(few) >> 16);
}

#if DW_VARIANT_BYTES >= 32

inline FewFloats widen_few(F16, uint64_t few) {
  return _mm_cvtph_ps(_mm_cvtsi64_si128(static_cast<long long>(few)));
}

inline uint64_t narrow_few(F16, FewFloats few) {
  return static_cast<uint64_t>(
      _mm_cvtsi128_si64(_mm_cvtps_ph(few, _MM_FROUND_TO_NEAREST_INT)));
}

#else

static_assert(kFew == kLanes);

inline FewFloats widen_few(F16, uint64_t few) { return widen_f16(spread(few)); }

inline uint64_t narrow_few(F16, FewFloats few) {
  return gathered(narrow_f16(few));
}

#endif

}  // namespace distwrap::algo::kernels::DW_VARIANT

#endif  // DISTWRAP_SRC_ALGO_KERNELS_HALF_LANES_H_
