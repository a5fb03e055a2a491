// Operators that make tensors of numbers: empty, full, arange.
#include "cpu/convert.h"
#include "cpu/loops.h"
#include "distwrap/arguments.h"
#include "distwrap/outputs.h"
#include "distwrap/registration.h"

#include <algorithm>

namespace distwrap::cpu {

absl::StatusOr<Tensor> empty(Ints size, DType dtype, Device device) {
  return Tensor::empty(size, dtype, device);
}

absl::StatusOr<Tensor> full(Ints size, const Scalar& value, DType dtype,
                            Device device) {
  absl::StatusOr<Tensor> out = Tensor::empty(size, dtype, device);
  if (!out.ok()) return out;
  const Number number = Number::of(value, dtype);
  repeat(dtype_size(dtype), out->data(), number.bytes, out->count());
  return out;
}

absl::StatusOr<Tensor> arange(const Scalar& start, const Scalar& end,
                              const Scalar& step, DType dtype, Device device) {
  absl::StatusOr<Tensor> out = outputs::arange(start, end, step, dtype, device);
  if (!out.ok()) return out;
  constexpr int64_t kPart = 512;
  const int64_t size = dtype_size(dtype);
  char* const to = static_cast<char*>(out->data());
  const bool whole = !start.is_float() && !step.is_float() && !is_float(dtype);
  for (int64_t at = 0; at < out->count(); at += kPart) {
    const int64_t count = std::min(out->count() - at, kPart);
    if (whole) {
      int64_t values[kPart];
      const auto first = static_cast<uint64_t>(start.to<int64_t>());
      const auto gap = static_cast<uint64_t>(step.to<int64_t>());
      for (int64_t i = 0; i < count; ++i)
        values[i] =
            static_cast<int64_t>(first + static_cast<uint64_t>(at + i) * gap);
      convert(dtype, to + at * size, DType::kI64, values, count);
    } else {
      double values[kPart];
      for (int64_t i = 0; i < count; ++i)
        values[i] = start.to<double>() +
                    static_cast<double>(at + i) * step.to<double>();
      convert(dtype, to + at * size, DType::kF64, values, count);
    }
  }
  return out;
}

DW_OPERATORS(lib) {
  using namespace distwrap::dispatch;
  lib.impl("dw::empty", {kDense, kCpu}, kernel<&empty>());
  lib.impl("dw::full", {kDense, kCpu}, kernel<&full>());
  lib.impl("dw::arange", {kDense, kCpu}, kernel<&arange>());
}

}  // namespace distwrap::cpu
