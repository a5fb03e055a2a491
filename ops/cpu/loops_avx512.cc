// The loops for processors with the common parts of AVX-512.
#include "cpu/loops_variants.h"

#define DW_VARIANT avx512
#define DW_VARIANT_NAME "avx512"
#define DW_VARIANT_TABLE kLoopsAvx512
#define DW_VARIANT_BYTES 64

#if defined(__clang__)
#pragma clang attribute push(                                      \
    __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl"))), \
    apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl")
#pragma GCC target("prefer-vector-width=512")
#endif

#include "cpu/loops_body.h"

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
