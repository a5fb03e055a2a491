// The kernels are compiled several times, for processors with more and more
// instructions: once in each file, in a namespace of its own, under a pragma
// that allows the instructions for the code behind it. Everything that is
// shared with other files, above all the standard library, is included before
// the pragma: a linker keeps one copy of an inline function, and that copy has
// to run everywhere.
//
// All variants give the same bits, except for the payload of a NaN.
#ifndef DISTWRAP_SRC_ALGO_KERNELS_VARIANTS_H_
#define DISTWRAP_SRC_ALGO_KERNELS_VARIANTS_H_

#include "distwrap/abi/moe.h"
#include "distwrap/abi/plugin.h"
#include "distwrap/abi/types.h"
#include "sdk/half.h"

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
void sum_rows(void* out, dw_dtype out_type, dw_dtype in,
              const dw_moe_operand* operands, uint64_t n, uint64_t width,
              uint32_t flags);
}  // namespace portable

#if defined(__x86_64__)
// The variant with AVX2 and F16C.
namespace avx2 {
dw_reduce_fn find(dw_dtype dtype, uint16_t reduce);
void sum_rows(void* out, dw_dtype out_type, dw_dtype in,
              const dw_moe_operand* operands, uint64_t n, uint64_t width,
              uint32_t flags);
}  // namespace avx2
// The variant with AVX-512 F, BW, DQ and VL.
namespace avx512 {
dw_reduce_fn find(dw_dtype dtype, uint16_t reduce);
void sum_rows(void* out, dw_dtype out_type, dw_dtype in,
              const dw_moe_operand* operands, uint64_t n, uint64_t width,
              uint32_t flags);
}  // namespace avx512
// The variant with these and AVX-512 BF16.
namespace avx512_bf16 {
dw_reduce_fn find(dw_dtype dtype, uint16_t reduce);
}
#endif

}  // namespace distwrap::algo::kernels

#endif  // DISTWRAP_SRC_ALGO_KERNELS_VARIANTS_H_
