// Elements of one type as another, and strided elements as contiguous ones.
//
// Floats become integers by truncation: what does not fit into 64 bits becomes
// the nearest that does, a NaN becomes 0, and smaller types keep the low bits.
// Everything but 0 becomes true. 16-bit floats are rounded once.
//
// Threads: any. Strides are counted in elements.
#ifndef DISTWRAP_OPS_CPU_CONVERT_H_
#define DISTWRAP_OPS_CPU_CONVERT_H_

#include "distwrap/scalar.h"
#include "distwrap/types.h"

#include <cstdint>

namespace distwrap::cpu {

// Writes `n` contiguous elements. The memory does not overlap.
void convert(DType to, void* out, DType from, const void* in, int64_t n);

// Copies elements of `size` bytes from, or to, places that lie `stride` apart.
void load_strided(int64_t size, void* out, const void* in, int64_t stride,
                  int64_t n);
void store_strided(int64_t size, void* out, int64_t stride, const void* in,
                   int64_t n);
// Writes one element `n` times.
void repeat(int64_t size, void* out, const void* element, int64_t n);

constexpr bool is_half(DType dtype) {
  return dtype == DType::kF16 || dtype == DType::kBF16;
}
constexpr bool is_float(DType dtype) {
  return is_half(dtype) || dtype == DType::kF32 || dtype == DType::kF64;
}
// The type in which a type's values are computed.
constexpr DType compute_type(DType dtype) {
  return is_half(dtype) ? DType::kF32 : dtype;
}

// Reads `n` elements that lie `stride` apart as T, float or double: the type
// that is their compute type. The result is `in` itself where it can be, else
// `room`, which has place for n.
template <class T>
const T* read_row(DType dtype, const void* in, int64_t stride, int64_t n,
                  T* room);
// Writes `n` elements of T to places that lie `stride` apart.
template <class T>
void write_row(DType dtype, void* out, int64_t stride, int64_t n, const T* row);

}  // namespace distwrap::cpu

#endif  // DISTWRAP_OPS_CPU_CONVERT_H_
