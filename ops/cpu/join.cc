// Operators that put tensors together: cat, pad, slice_scatter.
#include "cpu/convert.h"
#include "cpu/loops.h"
#include "cpu/strided_copy.h"
#include "distwrap/arguments.h"
#include "distwrap/outputs.h"
#include "distwrap/registration.h"

#include <algorithm>
#include <utility>

namespace distwrap::cpu {

absl::StatusOr<Tensor> cat(TensorList tensors, int64_t dim) {
  absl::StatusOr<Tensor> out = outputs::cat(tensors, dim);
  if (!out.ok()) return out;
  const int at = *outputs::check_dim("dw::cat", dim, out->dims());
  const int64_t size = dtype_size(out->dtype());
  char* to = static_cast<char*>(out->data());
  for (const Tensor& tensor : tensors) {
    strided_copy(size, tensor.sizes(), to, out->strides(), tensor.data(),
                 tensor.strides());
    to += tensor.size(at) * out->stride(at) * size;
  }
  return out;
}

absl::StatusOr<Tensor> pad(const Tensor& self, Ints amounts,
                           const Scalar& value) {
  absl::StatusOr<Tensor> out = outputs::pad(self, amounts);
  if (!out.ok()) return out;
  const int64_t size = dtype_size(self.dtype());
  const Number number = Number::of(value, self.dtype());
  repeat(size, out->data(), number.bytes, out->count());
  Dims sizes(self.sizes().begin(), self.sizes().end());
  const auto* from = static_cast<const char*>(self.data());
  auto* to = static_cast<char*>(out->data());
  for (size_t i = 0; i < amounts.size() / 2; ++i) {
    const int64_t before = amounts[2 * i], after = amounts[2 * i + 1];
    const int d = self.dims() - 1 - static_cast<int>(i);
    sizes[static_cast<size_t>(d)] +=
        std::min<int64_t>(before, 0) + std::min<int64_t>(after, 0);
    if (before < 0) {
      from -= before * self.stride(d) * size;
    } else {
      to += before * out->stride(d) * size;
    }
  }
  strided_copy(size, sizes, to, out->strides(), from, self.strides());
  return out;
}

absl::StatusOr<Tensor> slice_scatter(const Tensor& self, const Tensor& src,
                                     int64_t dim, int64_t start, int64_t end,
                                     int64_t step) {
  absl::StatusOr<outputs::Slice> slice =
      outputs::slice_scatter(self, src, dim, start, end, step);
  if (!slice.ok()) return std::move(slice).status();
  const Tensor& out = slice->out;
  const int64_t size = dtype_size(self.dtype());
  strided_copy(size, self.sizes(), out.data(), out.strides(), self.data(),
               self.strides());
  Dims strides(out.strides().begin(), out.strides().end());
  strides[static_cast<size_t>(slice->dim)] *= slice->step;
  strided_copy(size, src.sizes(),
               static_cast<char*>(out.data()) +
                   slice->start * out.stride(slice->dim) * size,
               strides, src.data(), src.strides());
  return out;
}

DW_OPERATORS(lib) {
  using namespace distwrap::dispatch;
  lib.impl("dw::cat", {kDense, kCpu}, kernel<&cat>());
  lib.impl("dw::pad", {kDense, kCpu}, kernel<&pad>());
  lib.impl("dw::slice_scatter", {kDense, kCpu}, kernel<&slice_scatter>());
}

}  // namespace distwrap::cpu
