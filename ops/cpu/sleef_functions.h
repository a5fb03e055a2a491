// The functions of vector_math.h from SLEEF's deterministic ones ("cinz": no
// fused multiply-add, which not every processor has), for registers of
// DW_MATH_BYTES. Included once by each file that is compiled for such
// registers; it includes no header with inline functions of other owners, whose
// code would then run on any processor.
#include <sleef.h>
#include <stdint.h>
#include <string.h>

// A loop over whole registers, and a padded one for the rest.
#define DW_MATH_LOOP(Name, T, Register, Load, Store, Call)                   \
  void Name(T* out, const T* in, int64_t n) {                                \
    constexpr int64_t kLanes = DW_MATH_BYTES / sizeof(T);                    \
    int64_t i = 0;                                                           \
    for (; i + kLanes <= n; i += kLanes) Store(out + i, Call(Load(in + i))); \
    if (i == n) return;                                                      \
    T rest[kLanes] = {};                                                     \
    memcpy(rest, in + i, static_cast<size_t>(n - i) * sizeof(T));            \
    Store(rest, Call(Load(rest)));                                           \
    memcpy(out + i, rest, static_cast<size_t>(n - i) * sizeof(T));           \
  }

#define DW_MATH_EXP(Name, T, Register, Load, Store, Set, Sub, Call) \
  void Name(T* out, const T* in, T shift, int64_t n) {              \
    constexpr int64_t kLanes = DW_MATH_BYTES / sizeof(T);           \
    const Register shifts = Set(shift);                             \
    int64_t i = 0;                                                  \
    for (; i + kLanes <= n; i += kLanes)                            \
      Store(out + i, Call(Sub(Load(in + i), shifts)));              \
    if (i == n) return;                                             \
    T rest[kLanes] = {};                                            \
    memcpy(rest, in + i, static_cast<size_t>(n - i) * sizeof(T));   \
    Store(rest, Call(Sub(Load(rest), shifts)));                     \
    memcpy(out + i, rest, static_cast<size_t>(n - i) * sizeof(T));  \
  }

#if DW_MATH_BYTES == 64
#define DW_F32(op) _mm512_##op##_ps
#define DW_F64(op) _mm512_##op##_pd
#define DW_CALL_F32(f, digits) Sleef_cinz_##f##f16_##digits##avx512fnofma
#define DW_CALL_F64(f, digits) Sleef_cinz_##f##d8_##digits##avx512fnofma
using Floats = __m512;
using Doubles = __m512d;
#elif DW_MATH_BYTES == 32
#define DW_F32(op) _mm256_##op##_ps
#define DW_F64(op) _mm256_##op##_pd
#define DW_CALL_F32(f, digits) Sleef_cinz_##f##f8_##digits##avx
#define DW_CALL_F64(f, digits) Sleef_cinz_##f##d4_##digits##avx
using Floats = __m256;
using Doubles = __m256d;
#else
#define DW_F32(op) _mm_##op##_ps
#define DW_F64(op) _mm_##op##_pd
#define DW_CALL_F32(f, digits) Sleef_cinz_##f##f4_##digits##sse2
#define DW_CALL_F64(f, digits) Sleef_cinz_##f##d2_##digits##sse2
using Floats = __m128;
using Doubles = __m128d;
#endif

#define DW_MATH(f)                                                      \
  DW_MATH_LOOP(f##_f32, float, Floats, DW_F32(loadu), DW_F32(storeu),   \
               DW_CALL_F32(f, u10))                                     \
  DW_MATH_LOOP(f##_f64, double, Doubles, DW_F64(loadu), DW_F64(storeu), \
               DW_CALL_F64(f, u10))

namespace {

DW_MATH_EXP(exp_f32, float, Floats, DW_F32(loadu), DW_F32(storeu), DW_F32(set1),
            DW_F32(sub), DW_CALL_F32(exp, u10))
DW_MATH_EXP(exp_f64, double, Doubles, DW_F64(loadu), DW_F64(storeu),
            DW_F64(set1), DW_F64(sub), DW_CALL_F64(exp, u10))
DW_MATH(log)
DW_MATH(tanh)
DW_MATH(erf)
DW_MATH(sin)
DW_MATH(cos)

}  // namespace
