#include "cpu/philox.h"

#include <Random123/philox.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace distwrap::cpu {
namespace {

uint32_t low(uint64_t x) { return static_cast<uint32_t>(x); }
uint32_t high(uint64_t x) { return static_cast<uint32_t>(x >> 32); }

#if defined(__x86_64__)

constexpr int64_t kAtOnce = 16;

// The rounds of philox4x32 for kAtOnce blocks. A word is the lower half of a
// 64-bit lane; the multiplication does not read the upper half, so that it may
// hold anything.
[[gnu::target("avx2")]] void many_blocks(const Generator& generator,
                                         uint64_t first, uint32_t* out) {
  constexpr int kGroups = 4;  // registers of four blocks
  const __m256i multiplier0 = _mm256_set1_epi64x(PHILOX_M4x32_0);
  const __m256i multiplier1 = _mm256_set1_epi64x(PHILOX_M4x32_1);
  __m256i a[kGroups], b[kGroups], c[kGroups], d[kGroups];
  for (int g = 0; g < kGroups; ++g) {
    a[g] = _mm256_add_epi64(
        _mm256_set1_epi64x(static_cast<long long>(first) + 4 * g),
        _mm256_set_epi64x(3, 2, 1, 0));
    b[g] = _mm256_srli_epi64(a[g], 32);
    c[g] = _mm256_set1_epi64x(low(generator.call));
    d[g] = _mm256_set1_epi64x(high(generator.call));
  }
  uint32_t key0 = low(generator.seed), key1 = high(generator.seed);
  for (unsigned round = 0; round < philox4x32_rounds; ++round) {
    const __m256i k0 = _mm256_set1_epi64x(key0), k1 = _mm256_set1_epi64x(key1);
#pragma GCC unroll 4
    for (int g = 0; g < kGroups; ++g) {
      const __m256i p = _mm256_mul_epu32(a[g], multiplier0);
      const __m256i q = _mm256_mul_epu32(c[g], multiplier1);
      a[g] = _mm256_xor_si256(_mm256_xor_si256(_mm256_srli_epi64(q, 32), b[g]),
                              k0);
      b[g] = q;
      c[g] = _mm256_xor_si256(_mm256_xor_si256(_mm256_srli_epi64(p, 32), d[g]),
                              k1);
      d[g] = p;
    }
    key0 += PHILOX_W32_0;
    key1 += PHILOX_W32_1;
  }
  for (int g = 0; g < kGroups; ++g) {
    // Two words of a block in each lane, then all four side by side.
    const __m256i ab =
        _mm256_blend_epi32(a[g], _mm256_slli_epi64(b[g], 32), 0xaa);
    const __m256i cd =
        _mm256_blend_epi32(c[g], _mm256_slli_epi64(d[g], 32), 0xaa);
    const __m256i even = _mm256_unpacklo_epi64(ab, cd);
    const __m256i odd = _mm256_unpackhi_epi64(ab, cd);
    auto* const to = reinterpret_cast<__m256i*>(out + 16 * g);
    _mm256_storeu_si256(to, _mm256_permute2x128_si256(even, odd, 0x20));
    _mm256_storeu_si256(to + 1, _mm256_permute2x128_si256(even, odd, 0x31));
  }
}

#endif

}  // namespace

void philox(const Generator& generator, int64_t first, int64_t n,
            uint32_t* out) {
  int64_t i = 0;
#if defined(__x86_64__)
  static const bool has_avx2 = __builtin_cpu_supports("avx2") != 0;
  for (; has_avx2 && i + kAtOnce <= n; i += kAtOnce)
    many_blocks(generator, static_cast<uint64_t>(first + i), out + 4 * i);
#endif
  const philox4x32_key_t key = {{low(generator.seed), high(generator.seed)}};
  for (; i < n; ++i) {
    const auto block = static_cast<uint64_t>(first + i);
    const philox4x32_ctr_t counter = {
        {low(block), high(block), low(generator.call), high(generator.call)}};
    const philox4x32_ctr_t words = philox4x32(counter, key);
    for (size_t w = 0; w < 4; ++w)
      out[4 * i + static_cast<int64_t>(w)] = words.v[w];
  }
}

}  // namespace distwrap::cpu
