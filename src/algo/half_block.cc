#include "algo/half_block.h"

#include "algo/half.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

namespace distwrap::algo {
namespace {

template <float (*kWiden)(uint16_t)>
void widen(float* out, const uint16_t* in, uint64_t count) {
  for (uint64_t i = 0; i < count; ++i) out[i] = kWiden(in[i]);
}

template <uint16_t (*kNarrow)(float)>
void narrow(uint16_t* out, const float* in, uint64_t count) {
  for (uint64_t i = 0; i < count; ++i) out[i] = kNarrow(in[i]);
}

#if defined(__x86_64__)

#define DW_WITH_F16C __attribute__((target("avx2,f16c")))
constexpr uint64_t kLanes = 8;

DW_WITH_F16C void widen_f16c(float* out, const uint16_t* in, uint64_t count) {
  uint64_t i = 0;
  for (; i + kLanes <= count; i += kLanes)
    _mm256_storeu_ps(out + i, _mm256_cvtph_ps(_mm_loadu_si128(
                                  reinterpret_cast<const __m128i*>(in + i))));
  widen<f16_to_f32>(out + i, in + i, count - i);
}

DW_WITH_F16C void narrow_f16c(uint16_t* out, const float* in, uint64_t count) {
  uint64_t i = 0;
  for (; i + kLanes <= count; i += kLanes)
    _mm_storeu_si128(
        reinterpret_cast<__m128i*>(out + i),
        _mm256_cvtps_ph(_mm256_loadu_ps(in + i), _MM_FROUND_TO_NEAREST_INT));
  narrow<f32_to_f16>(out + i, in + i, count - i);
}

DW_WITH_F16C void widen_bf16_avx2(float* out, const uint16_t* in,
                                  uint64_t count) {
  for (uint64_t i = 0; i < count; ++i) out[i] = bf16_to_f32(in[i]);
}

DW_WITH_F16C void narrow_bf16_avx2(uint16_t* out, const float* in,
                                   uint64_t count) {
  for (uint64_t i = 0; i < count; ++i) out[i] = f32_to_bf16(in[i]);
}

constexpr HalfBlock kF16C{widen_f16c, narrow_f16c};
constexpr HalfBlock kAvx2BF16{widen_bf16_avx2, narrow_bf16_avx2};

// Compilers disagree on the name of f16c; that it may be used together with
// the wide registers is what avx2 says.
bool has_f16c() {
  constexpr unsigned kBit = 1u << 29;
  unsigned a, b, c, d;
  return __builtin_cpu_supports("avx2") && __get_cpuid(1, &a, &b, &c, &d) &&
         (c & kBit) != 0;
}

bool use_f16c() {
  static const bool kHasF16C = has_f16c();
  return kHasF16C;
}

#endif

}  // namespace

const HalfBlock kPlainF16{widen<f16_to_f32>, narrow<f32_to_f16>};
const HalfBlock kPlainBF16{widen<bf16_to_f32>, narrow<f32_to_bf16>};

const HalfBlock& f16_block() {
#if defined(__x86_64__)
  if (use_f16c()) return kF16C;
#endif
  return kPlainF16;
}

const HalfBlock& bf16_block() {
#if defined(__x86_64__)
  if (use_f16c()) return kAvx2BF16;
#endif
  return kPlainBF16;
}

}  // namespace distwrap::algo
