// mm and bmm. Matrices whose rows or columns are dense go to the product as
// they are; others are copied first. 16-bit floats are computed in f32,
// integers by plain loops that wrap.
#include "cpu/convert.h"
#include "cpu/products.h"
#include "cpu/strided_copy.h"
#include "distwrap/arguments.h"
#include "distwrap/outputs.h"
#include "distwrap/registration.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace distwrap::cpu {
namespace {

// The last two dimensions of a tensor as a matrix; step 0 where neither rows
// nor columns are dense.
template <class T>
Matrix<const T> matrix_of(const Tensor& tensor) {
  const int64_t rows = tensor.size(-2), columns = tensor.size(-1);
  const int64_t down = tensor.stride(-2), right = tensor.stride(-1);
  const T* const data = tensor.data<const T>();
  // The stride of an extent of 1 does not matter.
  const auto dense = [](int64_t outer, int64_t inner, int64_t inner_step,
                        int64_t outer_step) {
    return (inner == 1 || inner_step == 1) &&
           (outer == 1 || outer_step >= inner);
  };
  if (dense(rows, columns, right, down)) {
    return {data, rows == 1 ? std::max<int64_t>(columns, 1) : down, false};
  }
  if (dense(columns, rows, down, right)) {
    return {data, columns == 1 ? std::max<int64_t>(rows, 1) : right, true};
  }
  return {data, 0, false};
}

// All products of a batch; the first dimension is that of the batch where there
// are three.
template <class T>
absl::Status multiply(const Tensor& out, Tensor self, Tensor other) {
  if (matrix_of<T>(self).step == 0) {
    absl::StatusOr<Tensor> dense = copy_of(self);
    if (!dense.ok()) return std::move(dense).status();
    self = *std::move(dense);
  }
  if (matrix_of<T>(other).step == 0) {
    absl::StatusOr<Tensor> dense = copy_of(other);
    if (!dense.ok()) return std::move(dense).status();
    other = *std::move(dense);
  }
  const int64_t rows = out.size(-2), columns = out.size(-1);
  const int64_t inner = self.size(-1);
  const int64_t batch = out.dims() == 3 ? out.size(0) : 1;
  Matrix<const T> a = matrix_of<T>(self), b = matrix_of<T>(other);
  Matrix<T> to{out.data<T>(), std::max<int64_t>(columns, 1)};
  if (!product_fits(rows, columns, inner, std::max(a.step, b.step))) {
    return outputs::too_large("dw::mm", self, other);
  }
  for (int64_t i = 0; i < batch; ++i) {
    product<T>(rows, columns, inner, T{1}, a, b, T{0}, to);
    if (batch == 1) break;
    a.data += self.stride(0);
    b.data += other.stride(0);
    to.data += rows * columns;
  }
  return absl::OkStatus();
}

absl::StatusOr<Tensor> as_f32(const Tensor& tensor) {
  absl::StatusOr<Tensor> wide = Tensor::empty(tensor.sizes(), DType::kF32);
  if (wide.ok()) copy_converted(*wide, tensor);
  return wide;
}

absl::Status multiply_halves(const Tensor& out, const Tensor& self,
                             const Tensor& other) {
  absl::StatusOr<Tensor> a = as_f32(self), b = as_f32(other);
  if (!a.ok()) return std::move(a).status();
  if (!b.ok()) return std::move(b).status();
  absl::StatusOr<Tensor> wide = Tensor::empty(out.sizes(), DType::kF32);
  if (!wide.ok()) return std::move(wide).status();
  absl::Status status = multiply<float>(*wide, *a, *b);
  if (status.ok()) copy_converted(out, *wide);
  return status;
}

// Without a sign, so that overflow wraps.
template <class T>
void multiply_integers(const Tensor& out, const Tensor& self,
                       const Tensor& other) {
  const int64_t rows = out.size(-2), columns = out.size(-1);
  const int64_t inner = self.size(-1);
  const int64_t batch = out.dims() == 3 ? out.size(0) : 1;
  const int64_t a_batch = out.dims() == 3 ? self.stride(0) : 0;
  const int64_t b_batch = out.dims() == 3 ? other.stride(0) : 0;
  T* to = out.data<T>();
  std::memset(to, 0, static_cast<size_t>(out.count()) * sizeof(T));
  for (int64_t n = 0; n < batch; ++n) {
    for (int64_t i = 0; i < rows; ++i, to += columns) {
      for (int64_t k = 0; k < inner; ++k) {
        const uint64_t a = self.data<T>()[n * a_batch + i * self.stride(-2) +
                                          k * self.stride(-1)];
        const T* const b = other.data<T>() + n * b_batch + k * other.stride(-2);
        for (int64_t j = 0; j < columns; ++j)
          to[j] = static_cast<T>(to[j] + a * b[j * other.stride(-1)]);
      }
    }
  }
}

absl::StatusOr<Tensor> contract(absl::StatusOr<Tensor> out, const Tensor& self,
                                const Tensor& other) {
  if (!out.ok() || out->count() == 0) return out;
  const int64_t size = dtype_size(out->dtype());
  if (self.size(-1) == 0) {
    std::memset(out->data(), 0, static_cast<size_t>(out->count() * size));
    return out;
  }
  absl::Status status;
  if (out->dtype() == DType::kF32) {
    status = multiply<float>(*out, self, other);
  } else if (out->dtype() == DType::kF64) {
    status = multiply<double>(*out, self, other);
  } else if (is_half(out->dtype())) {
    status = multiply_halves(*out, self, other);
  } else if (size == 1) {
    multiply_integers<uint8_t>(*out, self, other);
  } else if (size == 2) {
    multiply_integers<uint16_t>(*out, self, other);
  } else if (size == 4) {
    multiply_integers<uint32_t>(*out, self, other);
  } else {
    multiply_integers<uint64_t>(*out, self, other);
  }
  if (!status.ok()) return status;
  return out;
}

}  // namespace

absl::StatusOr<Tensor> mm(const Tensor& self, const Tensor& other) {
  return contract(outputs::mm(self, other), self, other);
}

absl::StatusOr<Tensor> bmm(const Tensor& self, const Tensor& other) {
  return contract(outputs::bmm(self, other), self, other);
}

DW_OPERATORS(lib) {
  using namespace distwrap::dispatch;
  lib.impl("dw::mm", {kDense, kCpu}, kernel<&mm>());
  lib.impl("dw::bmm", {kDense, kCpu}, kernel<&bmm>());
}

}  // namespace distwrap::cpu
