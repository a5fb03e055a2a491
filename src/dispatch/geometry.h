// Sizes and strides: pure arithmetic.
#ifndef DISTWRAP_SRC_DISPATCH_GEOMETRY_H_
#define DISTWRAP_SRC_DISPATCH_GEOMETRY_H_

#include "distwrap/tensor.h"

#include <absl/types/span.h>

#include <cstdint>
#include <optional>

namespace distwrap::dispatch {

inline constexpr size_t kMostDims = 64;

// The number of elements, and the offsets of the lowest and the highest one
// from the element at index 0.
struct Extent {
  int64_t count = 0, lowest = 0, highest = 0;
};

// nullopt where sizes and strides do not belong together, are negative or
// overflow.
std::optional<Extent> extent_of(absl::Span<const int64_t> sizes,
                                absl::Span<const int64_t> strides);

Dims row_major(absl::Span<const int64_t> sizes);
// Whether elements lie row-major without gaps; strides of extents of 1 do not
// matter.
bool is_row_major(absl::Span<const int64_t> sizes,
                  absl::Span<const int64_t> strides);
// Whether two indices may name one element.
bool may_overlap(absl::Span<const int64_t> sizes,
                 absl::Span<const int64_t> strides);
// The strides under which a tensor can be looked at with other sizes of the
// same number of elements, without a copy; nullopt where there are none.
std::optional<Dims> view_strides(absl::Span<const int64_t> sizes,
                                 absl::Span<const int64_t> strides,
                                 absl::Span<const int64_t> wanted);

}  // namespace distwrap::dispatch

#endif  // DISTWRAP_SRC_DISPATCH_GEOMETRY_H_
