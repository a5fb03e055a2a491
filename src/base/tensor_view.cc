#include "distwrap/tensor_view.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>

#include <algorithm>
#include <cstddef>

namespace distwrap {
namespace {

// The product of the extents; -1 when an extent is negative or the product
// overflows.
int64_t product(absl::Span<const int64_t> shape) {
  bool overflows = false, empty = false;
  int64_t count = 1;
  for (const int64_t extent : shape) {
    if (extent < 0) return -1;
    if (extent == 0) empty = true;
    overflows = __builtin_mul_overflow(count, extent, &count) || overflows;
  }
  if (empty) return 0;
  return overflows ? -1 : count;
}

bool is_row_major(absl::Span<const int64_t> shape,
                  absl::Span<const int64_t> strides) {
  int64_t expected = 1;
  for (size_t d = shape.size(); d-- > 0;) {
    if (shape[d] == 1) continue;
    if (strides[d] != expected) return false;
    expected *= shape[d];
  }
  return true;
}

bool is_known(DType dtype) {
  return static_cast<size_t>(dtype) < sizeof internal::kDTypeBytes;
}

}  // namespace

TensorView::TensorView(void* data, absl::Span<const int64_t> shape, DType dtype,
                       Device device, absl::Span<const int64_t> strides)
    : TensorView(data, product(shape), dtype, device) {
  shape_ = shape.empty() ? nullptr : shape.data();
  meta_ ^= kOneDim;
  meta_ |= static_cast<uint64_t>(std::min(shape.size(), size_t{kMaxDims}))
           << kDimsShift;
  if (count_ < 0 || shape.size() > kMaxDims ||
      (!strides.empty() && strides.size() != shape.size())) {
    meta_ |= kImpossible;
  } else if (!strides.empty() && count_ != 0 && !is_row_major(shape, strides)) {
    meta_ |= kStrided;
    count_ = static_cast<int64_t>(reinterpret_cast<intptr_t>(strides.data()));
  }
}

int64_t TensorView::unusual_count() const {
  return possible() ? product(shape()) : -1;
}

absl::Span<const int64_t> TensorView::strides() const {
  if ((meta_ & kStrided) == 0) return {};
  // NOLINTNEXTLINE(performance-no-int-to-ptr)
  return {reinterpret_cast<const int64_t*>(static_cast<intptr_t>(count_)),
          static_cast<size_t>(dims())};
}

std::string TensorView::text() const {
  if (shape_ == nullptr && dims() == 1)
    return absl::StrCat(dtype_name(dtype()), " x ", count());
  std::string text = absl::StrCat(dtype_name(dtype()), " [",
                                  absl::StrJoin(shape(), ", "), "]");
  if ((meta_ & kStrided) != 0)
    absl::StrAppend(&text, " strides [", absl::StrJoin(strides(), ", "), "]");
  return text;
}

TensorView TensorView::flat(int64_t first, int64_t count) const {
  TensorView part = *this;
  if (!contiguous() || !is_known(dtype())) return part;
  part.shape_ = nullptr;
  part.meta_ = (meta_ & ~(uint64_t{0xff} << kDimsShift)) | kOneDim;
  part.count_ = count;
  int64_t offset;
  if (first < 0 || count < 0 || first > count_ || count > count_ - first ||
      __builtin_mul_overflow(first, dtype_size(dtype()), &offset)) {
    part.count_ = -1;
    part.meta_ |= kImpossible;
  } else if (data_ != nullptr) {
    part.data_ = static_cast<std::byte*>(data_) + offset;
  }
  return part;
}

}  // namespace distwrap
