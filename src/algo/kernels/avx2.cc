// The kernels for processors with AVX2 and F16C.
#include "algo/kernels/variants.h"

#if defined(__x86_64__)

#define DW_VARIANT avx2
#define DW_VARIANT_BYTES 32

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,f16c"))), \
                             apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,f16c")
#endif

#include "algo/kernels/row_sum.h"
#include "algo/kernels/table.h"

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

#endif
