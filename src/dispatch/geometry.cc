#include "dispatch/geometry.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace distwrap::dispatch {

std::optional<Extent> extent_of(absl::Span<const int64_t> sizes,
                                absl::Span<const int64_t> strides) {
  if (sizes.size() != strides.size() || sizes.size() > kMostDims) return {};
  Extent extent{.count = 1};
  bool empty = false;
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (sizes[d] < 0) return {};
    if (sizes[d] == 0) empty = true;
    int64_t reach = 0;
    if (__builtin_mul_overflow(extent.count, std::max<int64_t>(sizes[d], 1),
                               &extent.count) ||
        __builtin_mul_overflow(std::max<int64_t>(sizes[d] - 1, 0), strides[d],
                               &reach) ||
        (reach < 0
             ? __builtin_add_overflow(extent.lowest, reach, &extent.lowest)
             : __builtin_add_overflow(extent.highest, reach,
                                      &extent.highest))) {
      return {};
    }
  }
  if (empty) return Extent();
  return extent;
}

Dims row_major(absl::Span<const int64_t> sizes) {
  Dims strides(sizes.size());
  int64_t stride = 1;
  for (size_t d = sizes.size(); d-- > 0;) {
    strides[d] = stride;
    // A product that overflows is refused by extent_of.
    if (__builtin_mul_overflow(stride, std::max<int64_t>(sizes[d], 1),
                               &stride)) {
      stride = 0;
    }
  }
  return strides;
}

bool is_row_major(absl::Span<const int64_t> sizes,
                  absl::Span<const int64_t> strides) {
  int64_t stride = 1;
  bool row_major = true;
  for (size_t d = sizes.size(); d-- > 0;) {
    if (sizes[d] == 0) return true;
    if (sizes[d] == 1) continue;
    if (strides[d] != stride) row_major = false;
    stride *= sizes[d];
  }
  return row_major;
}

bool may_overlap(absl::Span<const int64_t> sizes,
                 absl::Span<const int64_t> strides) {
  // Sorted by stride, each dimension has to step over all smaller ones.
  std::vector<std::pair<int64_t, int64_t>> dims;
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (sizes[d] == 0) return false;
    if (sizes[d] > 1) dims.emplace_back(std::abs(strides[d]), sizes[d]);
  }
  std::sort(dims.begin(), dims.end());
  int64_t reach = 0;
  for (const auto& [stride, size] : dims) {
    if (stride <= reach) return true;
    reach += stride * (size - 1);
  }
  return false;
}

std::optional<Dims> view_strides(absl::Span<const int64_t> sizes,
                                 absl::Span<const int64_t> strides,
                                 absl::Span<const int64_t> wanted) {
  int64_t count = 1;
  for (const int64_t size : sizes) count *= size;
  if (count == 0) return row_major(wanted);
  Dims result(wanted.size());
  // From the last dimension on: a run of dimensions that lie without gaps is
  // divided among the wanted dimensions whose product it is.
  auto at = static_cast<int64_t>(wanted.size()) - 1;
  int64_t run = 1, taken = 1;
  int64_t stride = strides.empty() ? 1 : strides.back();
  for (auto d = static_cast<int64_t>(sizes.size()) - 1; d >= 0; --d) {
    const auto i = static_cast<size_t>(d);
    run *= sizes[i];
    const bool last_of_run =
        d == 0 || (sizes[i - 1] != 1 && strides[i - 1] != run * stride);
    if (!last_of_run) continue;
    while (at >= 0 && (taken < run || wanted[static_cast<size_t>(at)] == 1)) {
      result[static_cast<size_t>(at)] = taken * stride;
      taken *= wanted[static_cast<size_t>(at--)];
    }
    if (taken != run) return {};
    if (d > 0) {
      stride = strides[i - 1];
      run = taken = 1;
    }
  }
  for (; at >= 0; --at) {
    if (wanted[static_cast<size_t>(at)] != 1) return {};
    result[static_cast<size_t>(at)] = taken * stride;
  }
  return result;
}

}  // namespace distwrap::dispatch
