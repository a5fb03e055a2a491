// Shape rules of elementwise operators and of those that write in place.
#include "distwrap/outputs.h"

#include "dispatch/fail.h"
#include "dispatch/geometry.h"
#include "dispatch/output_checks.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

namespace distwrap::outputs {
namespace {

using dispatch::bad_argument;
using dispatch::bad_type;
using dispatch::check_alike;
using dispatch::check_defined;
using dispatch::check_device;
using dispatch::dims_text;
using dispatch::same_sizes;

bool is_float(DType dtype) {
  return dtype == DType::kF16 || dtype == DType::kBF16 ||
         dtype == DType::kF32 || dtype == DType::kF64;
}

absl::StatusOr<Tensor> broadcast_output(absl::string_view op,
                                        const Tensor& self, const Tensor& other,
                                        DType dtype) {
  if (same_sizes(self, other)) {
    return Tensor::empty(self.sizes(), dtype, self.device());
  }
  absl::StatusOr<Dims> sizes = broadcast(op, self.sizes(), other.sizes());
  if (!sizes.ok()) return std::move(sizes).status();
  return Tensor::empty(*sizes, dtype, self.device());
}

// The strides under which a tensor has these sizes; nullopt where it cannot be
// broadcast to them.
std::optional<Dims> broadcast_strides(const Tensor& tensor,
                                      absl::Span<const int64_t> sizes) {
  const auto dims = static_cast<size_t>(tensor.dims());
  if (dims > sizes.size()) return {};
  Dims strides(sizes.size(), 0);
  const size_t lead = sizes.size() - dims;
  for (size_t d = 0; d < dims; ++d) {
    if (tensor.sizes()[d] == sizes[lead + d]) {
      strides[lead + d] = tensor.strides()[d];
    } else if (tensor.sizes()[d] != 1) {
      return {};
    }
  }
  return strides;
}

absl::Status cannot_broadcast(absl::string_view op, const Tensor& self,
                              const Tensor& other) {
  return bad_argument(
      op, "the tensor cannot be broadcast to what is written",
      absl::StrCat("extents of 1 or those of ", dims_text(self.sizes())),
      dims_text(other.sizes()));
}

}  // namespace

absl::Status check_type(absl::string_view op, const Tensor& self, Types types) {
  DW_CHECK_OK(check_defined(op, "self", self));
  const DType dtype = self.dtype();
  if (types == Types::kAll || is_float(dtype) ||
      (types == Types::kNumbers && dtype != DType::kBool)) {
    return absl::OkStatus();
  }
  return bad_type(op, "self", self,
                  types == Types::kFloats ? "f16, bf16, f32 or f64"
                                          : "integers and floats");
}

absl::StatusOr<int> check_dim(absl::string_view op, int64_t dim, int dims) {
  const int64_t most = std::max(dims, 1);
  if (dim >= -most && dim < most) {
    return static_cast<int>(dim < 0 ? dim + most : dim);
  }
  return bad_argument(
      op, absl::StrCat("dimension ", dim, " does not exist"),
      absl::StrCat("a dimension from ", -most, " to ", most - 1),
      absl::StrCat(dim));
}

absl::StatusOr<Dims> broadcast(absl::string_view op,
                               absl::Span<const int64_t> a,
                               absl::Span<const int64_t> b) {
  if (a.size() < b.size()) std::swap(a, b);
  Dims sizes(a.begin(), a.end());
  const size_t lead = a.size() - b.size();
  for (size_t d = 0; d < b.size(); ++d) {
    int64_t& size = sizes[lead + d];
    if (size == b[d] || b[d] == 1) continue;
    if (size != 1) {
      return bad_argument(
          op,
          absl::StrCat("sizes ", dims_text(a), " and ", dims_text(b),
                       " do not broadcast"),
          "equal extents, or 1, counted from the last dimension",
          absl::StrCat("extents ", size, " and ", b[d], " in dimension ",
                       lead + d));
    }
    size = b[d];
  }
  return sizes;
}

absl::StatusOr<Tensor> arange(const Scalar& start, const Scalar& end,
                              const Scalar& step, DType dtype, Device device) {
  constexpr absl::string_view kOp = "dw::arange";
  const auto wrong = [&](std::string what, std::string expected) {
    return bad_argument(
        kOp, std::move(what), std::move(expected),
        absl::StrCat("start ", start.to<double>(), ", end ", end.to<double>(),
                     ", step ", step.to<double>()));
  };
  if (dtype == DType::kBool) {
    return bad_argument(kOp, "bool has no range", "integers and floats",
                        "bool");
  }
  int64_t count = 0;
  if (start.is_float() || end.is_float() || step.is_float()) {
    const double from = start.to<double>(), to = end.to<double>();
    const double gap = step.to<double>();
    if (!std::isfinite(from) || !std::isfinite(to) || !std::isfinite(gap)) {
      return wrong("a bound is not finite", "finite numbers");
    }
    if (gap == 0 || (to - from) / gap < 0) {
      return wrong("the steps do not lead to the end",
                   "a step other than 0 from start towards end");
    }
    const double length = std::ceil((to - from) / gap);
    if (!(length < 0x1p62)) return wrong("too many numbers", "below 2^62");
    count = static_cast<int64_t>(length);
  } else {
    const int64_t from = start.to<int64_t>(), to = end.to<int64_t>();
    const int64_t gap = step.to<int64_t>();
    if (gap == 0 || (gap > 0 ? to < from : to > from)) {
      return wrong("the steps do not lead to the end",
                   "a step other than 0 from start towards end");
    }
    // Without a sign neither the distance nor the step overflows.
    const uint64_t distance =
        gap > 0 ? static_cast<uint64_t>(to) - static_cast<uint64_t>(from)
                : static_cast<uint64_t>(from) - static_cast<uint64_t>(to);
    const uint64_t size = gap > 0 ? static_cast<uint64_t>(gap)
                                  : uint64_t{0} - static_cast<uint64_t>(gap);
    const uint64_t length = distance / size + (distance % size != 0);
    if (length >> 62 != 0) return wrong("too many numbers", "below 2^62");
    count = static_cast<int64_t>(length);
  }
  return Tensor::empty({count}, dtype, device);
}

absl::StatusOr<Tensor> random(absl::string_view op, Ints sizes, DType dtype,
                              Device device) {
  if (!is_float(dtype)) {
    return make_error(
        {.reason = Reason::kDtypeUnsupported,
         .what = absl::StrCat("no random numbers of type ", dtype_name(dtype)),
         .op = std::string(op),
         .expected = "f16, bf16, f32 or f64",
         .actual = std::string(dtype_name(dtype)),
         .next_step = "draw floats and convert them with dw::to"});
  }
  return Tensor::empty(sizes, dtype, device);
}

absl::StatusOr<Tensor> to_copy(const Tensor& self, DType dtype, Device device) {
  DW_CHECK_OK(check_defined("dw::to_copy", "self", self));
  return Tensor::empty(self.sizes(), dtype, device);
}

absl::Status check_factor(absl::string_view op, const Tensor& self,
                          const Scalar& alpha) {
  DW_CHECK_OK(check_defined(op, "self", self));
  if (!alpha.is_float() || is_float(self.dtype())) return absl::OkStatus();
  return bad_argument(
      op, "argument 'alpha' has a fraction",
      absl::StrCat("a whole number for a tensor of ", dtype_name(self.dtype())),
      absl::StrCat(alpha.to<double>()));
}

absl::Status check_written(absl::string_view op, const Tensor& self) {
  DW_CHECK_OK(check_defined(op, "self", self));
  if (self.is_contiguous() ||
      !dispatch::may_overlap(self.sizes(), self.strides())) {
    return absl::OkStatus();
  }
  return make_error(
      {.reason = Reason::kViewWrite,
       .what = "two indices of the tensor name one element",
       .op = std::string(op),
       .expected = "a tensor without repeated elements",
       .actual = absl::StrCat("sizes ", dims_text(self.sizes()), ", strides ",
                              dims_text(self.strides())),
       .next_step = "write to a clone, or to the tensor before "
                    "it was expanded"});
}

absl::Status check_update(absl::string_view op, const Tensor& self,
                          const Tensor& other, Types types) {
  DW_CHECK_OK(check_alike(op, self, "other", other));
  DW_CHECK_OK(check_type(op, self, types));
  if (!same_sizes(self, other) &&
      !broadcast_strides(other, self.sizes()).has_value()) {
    return cannot_broadcast(op, self, other);
  }
  return check_written(op, self);
}

absl::StatusOr<Tensor> copy_(const Tensor& self, const Tensor& src) {
  constexpr absl::string_view kOp = "dw::copy_";
  DW_CHECK_OK(check_defined(kOp, "self", self));
  DW_CHECK_OK(check_defined(kOp, "src", src));
  DW_CHECK_OK(check_device(kOp, self, "src", src));
  DW_CHECK_OK(check_written(kOp, self));
  if (same_sizes(self, src)) return src;
  const std::optional<Dims> strides = broadcast_strides(src, self.sizes());
  if (!strides.has_value()) return cannot_broadcast(kOp, self, src);
  return Tensor::of_storage(src.storage(), src.dtype(), self.sizes(), *strides,
                            src.storage_offset());
}

absl::Status adamw_(const Tensor& self, const Tensor& grad, const Tensor& mean,
                    const Tensor& variance, int64_t step) {
  constexpr absl::string_view kOp = "dw::adamw_";
  DW_CHECK_OK(check_type(kOp, self, Types::kFloats));
  const std::pair<absl::string_view, const Tensor*> others[] = {
      {"grad", &grad}, {"mean", &mean}, {"variance", &variance}};
  for (const auto& [name, tensor] : others) {
    DW_CHECK_OK(check_alike(kOp, self, name, *tensor));
    DW_CHECK_OK(dispatch::check_sizes(kOp, name, *tensor, self.sizes()));
  }
  for (const Tensor* written : {&self, &mean, &variance}) {
    DW_CHECK_OK(check_written(kOp, *written));
  }
  if (step >= 1) return absl::OkStatus();
  return bad_argument(kOp, "argument 'step' is not the number of a step",
                      "1 for the first step", absl::StrCat(step));
}

absl::StatusOr<Tensor> elementwise(absl::string_view op, const Tensor& self,
                                   Types types) {
  DW_CHECK_OK(check_type(op, self, types));
  return Tensor::empty(self.sizes(), self.dtype(), self.device());
}

absl::StatusOr<Tensor> elementwise(absl::string_view op, const Tensor& self,
                                   const Tensor& other, Types types) {
  DW_CHECK_OK(check_alike(op, self, "other", other));
  DW_CHECK_OK(check_type(op, self, types));
  return broadcast_output(op, self, other, self.dtype());
}

absl::StatusOr<Tensor> comparison(absl::string_view op, const Tensor& self,
                                  const Tensor& other, Types types) {
  DW_CHECK_OK(check_alike(op, self, "other", other));
  DW_CHECK_OK(check_type(op, self, types));
  return broadcast_output(op, self, other, DType::kBool);
}

absl::StatusOr<Tensor> where(const Tensor& condition, const Tensor& self,
                             const Tensor& other) {
  constexpr absl::string_view kOp = "dw::where";
  DW_CHECK_OK(check_defined(kOp, "condition", condition));
  if (condition.dtype() != DType::kBool) {
    return bad_type(kOp, "condition", condition, "bool");
  }
  DW_CHECK_OK(check_alike(kOp, self, "other", other));
  DW_CHECK_OK(check_device(kOp, self, "condition", condition));
  absl::StatusOr<Dims> sizes = broadcast(kOp, self.sizes(), other.sizes());
  if (sizes.ok()) sizes = broadcast(kOp, condition.sizes(), *sizes);
  if (!sizes.ok()) return std::move(sizes).status();
  return Tensor::empty(*sizes, self.dtype(), self.device());
}

absl::StatusOr<Tensor> gradient(absl::string_view op, const Tensor& grad,
                                const Tensor& saved) {
  DW_CHECK_OK(check_alike(op, grad, "self", saved));
  DW_CHECK_OK(check_type(op, grad, Types::kFloats));
  DW_CHECK_OK(dispatch::check_sizes(op, "grad", grad, saved.sizes()));
  return Tensor::empty(grad.sizes(), grad.dtype(), grad.device());
}

}  // namespace distwrap::outputs
