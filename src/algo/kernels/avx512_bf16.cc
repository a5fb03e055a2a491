// The kernels for processors with the common parts of AVX-512 and its
// conversion to bf16.
#include "algo/kernels/variants.h"

#if defined(__x86_64__)

#define DW_VARIANT avx512_bf16
#define DW_VARIANT_BYTES 64
#define DW_VARIANT_BF16

#if defined(__clang__)
#pragma clang attribute push(                                           \
    __attribute__((                                                     \
        target("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,f16c"))), \
    apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16")
#pragma GCC target("f16c,prefer-vector-width=512")
#endif

#include "algo/kernels/rows.h"

namespace distwrap::algo::kernels::avx512_bf16 {

dw_reduce_fn find(dw_dtype dtype, uint16_t reduce) {
  static constexpr Row kRow = row_of<BF16>();
  constexpr uint8_t kCode = 4;  // DLPack's code of bf16
  const bool is_bf16 =
      dtype.lanes == 1 && dtype.bits == 16 && dtype.code == kCode;
  if (!is_bf16 || reduce >= kRow.size()) return avx512::find(dtype, reduce);
  return kRow[reduce];
}

}  // namespace distwrap::algo::kernels::avx512_bf16

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

#endif
