// The kernels for processors with the common parts of AVX-512.
#include "algo/kernels/variants.h"

#if defined(__x86_64__)

#define DW_VARIANT avx512
#define DW_VARIANT_BYTES 64

#if defined(__clang__)
#pragma clang attribute push(                                           \
    __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,f16c"))), \
    apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl")
#pragma GCC target("f16c,prefer-vector-width=512")
#endif

#include "algo/kernels/row_sum.h"
#include "algo/kernels/table.h"

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

#endif
