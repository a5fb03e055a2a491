// Copies of elements between memory of any two layouts.
//
// Threads: any. The memory of both sides does not overlap. Strides are counted
// in elements.
#ifndef DISTWRAP_OPS_CPU_STRIDED_COPY_H_
#define DISTWRAP_OPS_CPU_STRIDED_COPY_H_

#include "distwrap/tensor.h"

#include <absl/types/span.h>

#include <cstdint>

namespace distwrap::cpu {

// Copies elements of `size` bytes.
void strided_copy(int64_t size, absl::Span<const int64_t> sizes, void* out,
                  absl::Span<const int64_t> out_strides, const void* in,
                  absl::Span<const int64_t> in_strides);

// Writes the elements of `in`, converted, to `out` of the same sizes.
void copy_converted(const Tensor& out, const Tensor& in);

// A row-major copy.
absl::StatusOr<Tensor> copy_of(const Tensor& in);
// `in` itself where it is row-major, else a row-major copy.
absl::StatusOr<Tensor> row_major_of(const Tensor& in);

// Whether some byte may belong to elements of both tensors.
bool share_memory(const Tensor& a, const Tensor& b);
// Whether both tensors have the same elements in the same order, once `b` is
// broadcast.
bool same_elements(const Tensor& a, const Tensor& b);

}  // namespace distwrap::cpu

#endif  // DISTWRAP_OPS_CPU_STRIDED_COPY_H_
