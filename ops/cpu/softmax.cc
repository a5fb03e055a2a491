// softmax, log_softmax and their gradients, row by row.
#include "cpu/cascade.h"
#include "cpu/row_set.h"
#include "cpu/vector_math.h"
#include "distwrap/arguments.h"
#include "distwrap/outputs.h"
#include "distwrap/registration.h"

namespace distwrap::cpu {
namespace {

using outputs::Types;

struct Softmax {
  template <class T>
  void operator()(T* y, const T* x, int64_t n) const {
    functions<T>().exp(y, x, rows<T>().max(x, n), n);
    rows<T>().scale(y, y, T{1} / sum_row(y, n), n);
  }
};

struct LogSoftmax {
  template <class T>
  void operator()(T* y, const T* x, int64_t n) const {
    const T max = rows<T>().max(x, n);
    functions<T>().exp(y, x, max, n);
    T log_sum = sum_row(y, n);
    functions<T>().log(&log_sum, &log_sum, 1);
    rows<T>().shift(y, x, max, log_sum, n);
  }
};

// (grad - sum(grad * output)) * output.
struct SoftmaxBackward {
  template <class T>
  void operator()(T* y, const T* grad, const T* output, int64_t n) const {
    rows<T>().shift_mul(y, grad, output, dot_row(grad, output, n), n);
  }
};

// grad - exp(output) * sum(grad).
struct LogSoftmaxBackward {
  template <class T>
  void operator()(T* y, const T* grad, const T* output, int64_t n) const {
    functions<T>().exp(y, output, T{0}, n);
    rows<T>().project(y, grad, y, T{0}, sum_row(grad, n), T{1}, n);
  }
};

template <class T, class F>
void each_row(const Tensor& out, const Tensor& x, int dim) {
  RowsAs<T> to(out, dim), from(x, dim);
  if (to.length() == 0) return;
  for (int64_t r = 0, count = to.count(); r < count; ++r) {
    F()(to.write(r), from.read(r), to.length());
    to.written(r);
  }
}

template <class T, class F>
void each_row(const Tensor& out, const Tensor& x, const Tensor& y, int dim) {
  RowsAs<T> to(out, dim), from(x, dim), saved(y, dim);
  if (to.length() == 0) return;
  for (int64_t r = 0, count = to.count(); r < count; ++r) {
    F()(to.write(r), from.read(r), saved.read(r), to.length());
    to.written(r);
  }
}

template <class F>
absl::StatusOr<Tensor> forward(absl::string_view op, const Tensor& self,
                               int64_t dim) {
  absl::StatusOr<Tensor> out = outputs::softmax(op, self, dim);
  if (!out.ok()) return out;
  const int at = *outputs::check_dim(op, dim, self.dims());
  if (self.dtype() == DType::kF64) {
    each_row<double, F>(*out, self, at);
  } else {
    each_row<float, F>(*out, self, at);
  }
  return out;
}

template <class F>
absl::StatusOr<Tensor> backward(absl::string_view op, const Tensor& grad,
                                const Tensor& output, int64_t dim) {
  absl::StatusOr<Tensor> out = outputs::softmax_backward(op, grad, output, dim);
  if (!out.ok()) return out;
  const int at = *outputs::check_dim(op, dim, grad.dims());
  if (grad.dtype() == DType::kF64) {
    each_row<double, F>(*out, grad, output, at);
  } else {
    each_row<float, F>(*out, grad, output, at);
  }
  return out;
}

}  // namespace

absl::StatusOr<Tensor> softmax(const Tensor& self, int64_t dim) {
  return forward<Softmax>("dw::softmax", self, dim);
}

absl::StatusOr<Tensor> log_softmax(const Tensor& self, int64_t dim) {
  return forward<LogSoftmax>("dw::log_softmax", self, dim);
}

absl::StatusOr<Tensor> softmax_backward(const Tensor& grad,
                                        const Tensor& output, int64_t dim) {
  return backward<SoftmaxBackward>("dw::softmax_backward", grad, output, dim);
}

absl::StatusOr<Tensor> log_softmax_backward(const Tensor& grad,
                                            const Tensor& output, int64_t dim) {
  return backward<LogSoftmaxBackward>("dw::log_softmax_backward", grad, output,
                                      dim);
}

DW_OPERATORS(lib) {
  using namespace distwrap::dispatch;
  lib.impl("dw::softmax", {kDense, kCpu}, kernel<&softmax>());
  lib.impl("dw::log_softmax", {kDense, kCpu}, kernel<&log_softmax>());
  lib.impl("dw::softmax_backward", {kDense, kCpu}, kernel<&softmax_backward>());
  lib.impl("dw::log_softmax_backward", {kDense, kCpu},
           kernel<&log_softmax_backward>());
}

}  // namespace distwrap::cpu
