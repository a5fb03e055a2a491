// Operators that copy elements: clone, copy_, to_copy, fill_.
#include "cpu/convert.h"
#include "cpu/pass.h"
#include "cpu/strided_copy.h"
#include "distwrap/arguments.h"
#include "distwrap/outputs.h"
#include "distwrap/registration.h"
#include "distwrap/status.h"

namespace distwrap::cpu {

absl::StatusOr<Tensor> clone(const Tensor& self) {
  absl::StatusOr<Tensor> out =
      outputs::elementwise("dw::clone", self, outputs::Types::kAll);
  if (out.ok()) copy_converted(*out, self);
  return out;
}

absl::Status copy_(const Tensor& self, const Tensor& src) {
  absl::StatusOr<Tensor> spread = outputs::copy_(self, src);
  if (!spread.ok()) return spread.status();
  if (same_elements(self, *spread)) return absl::OkStatus();
  if (share_memory(self, *spread)) {
    absl::StatusOr<Tensor> own = copy_of(*spread);
    if (!own.ok()) return own.status();
    spread = *std::move(own);
  }
  copy_converted(self, *spread);
  return absl::OkStatus();
}

absl::StatusOr<Tensor> to_copy(const Tensor& self, DType dtype, Device device) {
  absl::StatusOr<Tensor> out = outputs::to_copy(self, dtype, device);
  if (!out.ok() || device == kMeta) return out;
  if (device != kCpu) {
    return make_error(
        {.reason = Reason::kNoKernel,
         .what = "the cpu library copies within host memory only",
         .op = "dw::to_copy",
         .expected = "device cpu or meta",
         .actual = out->text(),
         .next_step = "load the library with the operators of the device"});
  }
  copy_converted(*out, self);
  return out;
}

absl::Status fill_(const Tensor& self, const Scalar& value) {
  if (absl::Status status = outputs::check_written("dw::fill_", self);
      !status.ok()) {
    return status;
  }
  const Number number = Number::of(value, self.dtype());
  const int64_t size = dtype_size(self.dtype());
  if (self.is_contiguous()) {
    repeat(size, self.data(), number.bytes, self.count());
    return absl::OkStatus();
  }
  const Dims repeated(static_cast<size_t>(self.dims()), 0);
  strided_copy(size, self.sizes(), self.data(), self.strides(), number.bytes,
               repeated);
  return absl::OkStatus();
}

DW_OPERATORS(lib) {
  using namespace distwrap::dispatch;
  lib.impl("dw::clone", {kDense, kCpu}, kernel<&clone>());
  lib.impl("dw::copy_", {kDense, kCpu}, kernel<&copy_>());
  lib.impl("dw::to_copy", {kDense, kCpu}, kernel<&to_copy>());
  lib.impl("dw::fill_", {kDense, kCpu}, kernel<&fill_>());
}

}  // namespace distwrap::cpu
