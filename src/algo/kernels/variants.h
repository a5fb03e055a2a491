// The kernels are compiled several times, for processors that have more and
// more: once a file, each in a namespace of its own, under a pragma that allows
// the instructions to what follows it. What is shared with other files, of the
// standard library above all, comes before the pragma: a linker keeps one copy
// of an inline function, and that one has to run anywhere.
//
// All give the same bits, but for the payload of a NaN.
#ifndef DISTWRAP_SRC_ALGO_KERNELS_VARIANTS_H_
#define DISTWRAP_SRC_ALGO_KERNELS_VARIANTS_H_

#include "algo/half.h"
#include "distwrap/abi/plugin.h"
#include "distwrap/abi/types.h"

#include <array>
#include <bit>
#include <concepts>
#include <cstdint>
#include <cstring>
#include <type_traits>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace distwrap::algo::kernels {

namespace portable {
dw_reduce_fn find(dw_dtype dtype, uint16_t reduce);
}

#if defined(__x86_64__)
// With F16C.
namespace avx2 {
dw_reduce_fn find(dw_dtype dtype, uint16_t reduce);
}
// F, BW, DQ and VL.
namespace avx512 {
dw_reduce_fn find(dw_dtype dtype, uint16_t reduce);
}
// And BF16.
namespace avx512_bf16 {
dw_reduce_fn find(dw_dtype dtype, uint16_t reduce);
}
#endif

}  // namespace distwrap::algo::kernels

#endif  // DISTWRAP_SRC_ALGO_KERNELS_VARIANTS_H_
