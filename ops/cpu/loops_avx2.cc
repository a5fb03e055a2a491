// The loops for processors with AVX2.
#include "cpu/loops_variants.h"

#define DW_VARIANT avx2
#define DW_VARIANT_NAME "avx2"
#define DW_VARIANT_TABLE kLoopsAvx2
#define DW_VARIANT_BYTES 32

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2"))), \
                             apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2")
#endif

#include "cpu/loops_body.h"

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
