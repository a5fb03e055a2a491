// Shape rules of reductions, and of operators that join or cut tensors.
#include "dispatch/fail.h"
#include "dispatch/geometry.h"
#include "dispatch/output_checks.h"
#include "distwrap/outputs.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <limits>
#include <utility>

namespace distwrap::outputs {
namespace {

using dispatch::bad_argument;
using dispatch::check_alike;
using dispatch::check_defined;
using dispatch::dims_text;

constexpr int64_t kMost = std::numeric_limits<int64_t>::max();

}  // namespace

DType sum_type(DType dtype) {
  switch (dtype) {
    case DType::kF16:
    case DType::kBF16:
    case DType::kF32:
    case DType::kF64:
    case DType::kU64:
      return dtype;
    default:
      return DType::kI64;
  }
}

absl::StatusOr<uint64_t> reduced_dims(
    absl::string_view op, int dims,
    std::optional<absl::Span<const int64_t>> reduced) {
  if (!reduced.has_value()) {
    return dims >= 64 ? ~uint64_t{0} : (uint64_t{1} << dims) - 1;
  }
  uint64_t bits = 0;
  for (const int64_t dim : *reduced) {
    absl::StatusOr<int> d = check_dim(op, dim, dims);
    if (!d.ok()) return std::move(d).status();
    const uint64_t bit = uint64_t{1} << *d;
    if ((bits & bit) != 0) {
      return bad_argument(op, "a dimension is named twice",
                          "each dimension once", dims_text(*reduced));
    }
    bits |= bit;
  }
  // A tensor of no dimensions has one by name only.
  return dims == 0 ? 0 : bits;
}

absl::StatusOr<Tensor> reduction(absl::string_view op, const Tensor& self,
                                 uint64_t reduced, bool keep, DType dtype) {
  DW_CHECK_OK(check_defined(op, "self", self));
  Dims sizes;
  for (int d = 0; d < self.dims(); ++d) {
    if ((reduced >> d & 1) == 0) {
      sizes.push_back(self.size(d));
    } else if (keep) {
      sizes.push_back(1);
    }
  }
  return Tensor::empty(sizes, dtype, self.device());
}

absl::StatusOr<Tensor> sum(const Tensor& self,
                           std::optional<absl::Span<const int64_t>> dims,
                           bool keep) {
  DW_CHECK_OK(check_defined("dw::sum", "self", self));
  absl::StatusOr<uint64_t> reduced = reduced_dims("dw::sum", self.dims(), dims);
  if (!reduced.ok()) return std::move(reduced).status();
  return reduction("dw::sum", self, *reduced, keep, sum_type(self.dtype()));
}

absl::StatusOr<Tensor> amax(const Tensor& self,
                            std::optional<absl::Span<const int64_t>> dims,
                            bool keep) {
  constexpr absl::string_view kOp = "dw::amax";
  DW_CHECK_OK(check_defined(kOp, "self", self));
  absl::StatusOr<uint64_t> reduced = reduced_dims(kOp, self.dims(), dims);
  if (!reduced.ok()) return std::move(reduced).status();
  for (int d = 0; d < self.dims(); ++d) {
    if ((*reduced >> d & 1) != 0 && self.size(d) == 0) {
      return bad_argument(kOp, "no elements have no maximum",
                          "one element or more in each reduced dimension",
                          dims_text(self.sizes()));
    }
  }
  return reduction(kOp, self, *reduced, keep, self.dtype());
}

absl::StatusOr<Tensor> cat(absl::Span<const Tensor> tensors, int64_t dim) {
  constexpr absl::string_view kOp = "dw::cat";
  if (tensors.empty()) {
    return bad_argument(kOp, "argument 'tensors' is empty",
                        "one tensor or more", "an empty list");
  }
  DW_CHECK_OK(check_defined(kOp, "tensors[0]", tensors[0]));
  const Tensor& first = tensors[0];
  absl::StatusOr<int> at = check_dim(kOp, dim, first.dims());
  if (!at.ok()) return std::move(at).status();
  if (first.dims() == 0) {
    return bad_argument(kOp, "a tensor has no dimension to join along",
                        "one dimension or more", first.text());
  }
  Dims sizes(first.sizes().begin(), first.sizes().end());
  const auto along = static_cast<size_t>(*at);
  for (size_t i = 1; i < tensors.size(); ++i) {
    const std::string name = absl::StrCat("tensors[", i, "]");
    DW_CHECK_OK(check_alike(kOp, first, name, tensors[i]));
    Dims other(tensors[i].sizes().begin(), tensors[i].sizes().end());
    const bool fits = other.size() == sizes.size();
    int64_t added = 0;
    if (fits) std::swap(added, other[along]);
    Dims rest = sizes;
    rest[along] = 0;
    if (!fits || other != rest) {
      return bad_argument(
          kOp, absl::StrCat("argument '", name, "' has wrong sizes"),
          absl::StrCat("those of tensors[0], ", dims_text(first.sizes()),
                       ", except in dimension ", along),
          dims_text(tensors[i].sizes()));
    }
    if (__builtin_add_overflow(sizes[along], added, &sizes[along])) {
      return bad_argument(kOp, "the result is too large", "below 2^63");
    }
  }
  return Tensor::empty(sizes, first.dtype(), first.device());
}

absl::StatusOr<Tensor> pad(const Tensor& self,
                           absl::Span<const int64_t> amounts) {
  constexpr absl::string_view kOp = "dw::pad";
  DW_CHECK_OK(check_defined(kOp, "self", self));
  const auto dims = static_cast<size_t>(self.dims());
  if (amounts.size() % 2 != 0 || amounts.size() / 2 > dims) {
    return bad_argument(
        kOp, "argument 'amounts' does not fit the dimensions",
        absl::StrCat("two numbers for each of at most ", dims, " dimensions"),
        dims_text(amounts));
  }
  Dims sizes(self.sizes().begin(), self.sizes().end());
  for (size_t i = 0; i < amounts.size() / 2; ++i) {
    int64_t& size = sizes[dims - 1 - i];
    const int64_t before = amounts[2 * i], after = amounts[2 * i + 1];
    // An element that is cut off at one end cannot be cut off at the other.
    const bool possible =
        before >= -kMost && after >= -kMost && -before <= size &&
        -after <= size && !__builtin_add_overflow(size, before, &size) &&
        !__builtin_add_overflow(size, after, &size) && size >= 0;
    if (!possible) {
      return bad_argument(
          kOp, "argument 'amounts' leaves an impossible size",
          "amounts that cut off no more elements than there are",
          absl::StrCat(dims_text(amounts), " for sizes ",
                       dims_text(self.sizes())));
    }
  }
  return Tensor::empty(sizes, self.dtype(), self.device());
}

absl::StatusOr<Range> slice_range(absl::string_view op, int64_t extent,
                                  int64_t start, int64_t end, int64_t step) {
  if (step < 1) {
    return bad_argument(op, "argument 'step' is impossible", "1 or more",
                        absl::StrCat(step));
  }
  const auto place = [extent](int64_t at) {
    if (at < 0) at = at < -extent ? 0 : at + extent;
    return std::min(at, extent);
  };
  start = place(start);
  end = std::max(place(end), start);
  const int64_t length = end - start;
  return Range{start, step, length / step + (length % step != 0)};
}

absl::StatusOr<Slice> slice_scatter(const Tensor& self, const Tensor& src,
                                    int64_t dim, int64_t start, int64_t end,
                                    int64_t step) {
  constexpr absl::string_view kOp = "dw::slice_scatter";
  DW_CHECK_OK(check_alike(kOp, self, "src", src));
  absl::StatusOr<int> at = check_dim(kOp, dim, self.dims());
  if (!at.ok()) return std::move(at).status();
  if (self.dims() == 0) {
    return bad_argument(kOp, "the tensor has no dimension to cut",
                        "one dimension or more", self.text());
  }
  absl::StatusOr<Range> range =
      slice_range(kOp, self.size(*at), start, end, step);
  if (!range.ok()) return std::move(range).status();
  Dims sizes(self.sizes().begin(), self.sizes().end());
  sizes[static_cast<size_t>(*at)] = range->count;
  DW_CHECK_OK(dispatch::check_sizes(kOp, "src", src, sizes));
  absl::StatusOr<Tensor> out =
      Tensor::empty(self.sizes(), self.dtype(), self.device());
  if (!out.ok()) return std::move(out).status();
  return Slice{*std::move(out), *at, range->start, range->step};
}

absl::StatusOr<Tensor> as_strided_backward(const Tensor& grad, Ints base_size,
                                           Ints size, Ints stride,
                                           int64_t offset) {
  constexpr absl::string_view kOp = "dw::as_strided_backward";
  DW_CHECK_OK(check_type(kOp, grad, Types::kFloats));
  DW_CHECK_OK(dispatch::check_sizes(kOp, "grad", grad, size));
  absl::StatusOr<Tensor> out =
      Tensor::empty(base_size, grad.dtype(), grad.device());
  if (!out.ok()) return out;
  const std::optional<dispatch::Extent> extent =
      dispatch::extent_of(size, stride);
  if (!extent.has_value() || offset < 0 ||
      (extent->count > 0 &&
       (offset > out->count() || offset + extent->lowest < 0 ||
        extent->highest >= out->count() - offset))) {
    return bad_argument(
        kOp, "the view does not lie in its base",
        absl::StrCat("elements 0 to ", out->count() - 1),
        absl::StrCat("offset ", offset, ", sizes ", dims_text(size),
                     ", strides ", dims_text(stride)));
  }
  return out;
}

}  // namespace distwrap::outputs
