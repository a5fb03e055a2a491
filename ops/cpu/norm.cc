// layer_norm, rms_norm and their gradients over the last dimension.
//
// With d = (x - mean) * factor, where factor is 1 / sqrt(variance + eps), and
// g = grad * weight, the gradient of x is
// factor * (g - average(g) - d * average(g * d)); rms_norm has mean 0 and no
// average(g).
#include "cpu/cascade.h"
#include "cpu/row_set.h"
#include "cpu/row_total.h"
#include "distwrap/arguments.h"
#include "distwrap/outputs.h"
#include "distwrap/registration.h"

#include <cmath>
#include <utility>

namespace distwrap::cpu {
namespace {

// A 1-d tensor as a vector, empty where there is no tensor.
template <class T>
std::vector<T> vector_of(const Tensor* tensor) {
  if (tensor == nullptr) return {};
  RowsAs<T> rows(*tensor, 0);
  const T* const row = rows.read(0);
  return std::vector<T>(row, row + rows.length());
}

template <class T>
const T* data_or_null(const std::vector<T>& row) {
  return row.empty() ? nullptr : row.data();
}

template <class T>
struct Moments {
  T mean, factor;
};

template <class T>
Moments<T> moments_of(const T* x, int64_t n, bool centred, double eps) {
  const T count = static_cast<T>(n);
  const T mean = centred ? sum_row(x, n) / count : T{0};
  const T variance = squares_row(x, mean, n) / count;
  return {mean, T{1} / std::sqrt(variance + static_cast<T>(eps))};
}

template <class T>
void forward_rows(const Tensor& out, const Tensor& self, const Tensor* weight,
                  const Tensor* bias, double eps, bool centred) {
  const std::vector<T> scale = vector_of<T>(weight), add = vector_of<T>(bias);
  const int dim = self.dims() - 1;
  RowsAs<T> to(out, dim), from(self, dim);
  const int64_t n = to.length();
  if (n == 0) return;
  for (int64_t r = 0, count = to.count(); r < count; ++r) {
    const T* const x = from.read(r);
    const Moments<T> moments = moments_of(x, n, centred, eps);
    rows<T>().normalize(to.write(r), x, data_or_null(scale), data_or_null(add),
                        moments.mean, moments.factor, n);
    to.written(r);
  }
}

template <class T>
void backward_rows(const ThreeTensors& out, const Tensor& grad,
                   const Tensor& self, const Tensor* weight, double eps,
                   bool centred) {
  const std::vector<T> scale = vector_of<T>(weight);
  const int dim = self.dims() - 1;
  RowsAs<T> to(std::get<0>(out), dim), from(self, dim), grads(grad, dim);
  const int64_t n = to.length();
  RowTotal<T> scale_total(n), bias_total(n);
  std::vector<T> d(static_cast<size_t>(n)), g(static_cast<size_t>(n));
  const Loop mul = loops().find(Op::kMul, dtype_of<T>);
  const auto multiply = [&](T* y, const T* a, const T* b) {
    void* const p[] = {y, const_cast<T*>(a), const_cast<T*>(b)};
    mul(p, n, nullptr);
  };
  for (int64_t r = 0, count = n == 0 ? 0 : to.count(); r < count; ++r) {
    const T* const x = from.read(r);
    const T* const row = grads.read(r);
    const Moments<T> moments = moments_of(x, n, centred, eps);
    rows<T>().normalize(d.data(), x, nullptr, nullptr, moments.mean,
                        moments.factor, n);
    const T* weighted = row;
    if (!scale.empty()) {
      multiply(g.data(), row, scale.data());
      weighted = g.data();
    }
    const T length = static_cast<T>(n);
    const T average = centred ? sum_row(weighted, n) / length : T{0};
    const T slope = dot_row(weighted, d.data(), n) / length;
    rows<T>().project(to.write(r), weighted, d.data(), average, slope,
                      moments.factor, n);
    to.written(r);
    multiply(d.data(), row, d.data());
    scale_total.add(d.data());
    if (centred) bias_total.add(row);
  }
  const DType type = self.dtype();
  write_row(type, std::get<1>(out).data(), 1, n, scale_total.total());
  if (centred) {
    write_row(type, std::get<2>(out).data(), 1, n, bias_total.total());
  }
}

absl::StatusOr<Tensor> forward(absl::string_view op, const Tensor& self,
                               const Tensor* weight, const Tensor* bias,
                               double eps, bool centred) {
  absl::StatusOr<Tensor> out = outputs::norm(op, self, weight, bias);
  if (!out.ok()) return out;
  if (self.dtype() == DType::kF64) {
    forward_rows<double>(*out, self, weight, bias, eps, centred);
  } else {
    forward_rows<float>(*out, self, weight, bias, eps, centred);
  }
  return out;
}

absl::StatusOr<ThreeTensors> backward(absl::string_view op, const Tensor& grad,
                                      const Tensor& self, const Tensor* weight,
                                      double eps, bool centred) {
  absl::StatusOr<ThreeTensors> out =
      outputs::norm_backward(op, grad, self, weight);
  if (!out.ok()) return out;
  if (self.dtype() == DType::kF64) {
    backward_rows<double>(*out, grad, self, weight, eps, centred);
  } else {
    backward_rows<float>(*out, grad, self, weight, eps, centred);
  }
  return out;
}

}  // namespace

absl::StatusOr<Tensor> layer_norm(const Tensor& self, const Tensor* weight,
                                  const Tensor* bias, double eps) {
  return forward("dw::layer_norm", self, weight, bias, eps, true);
}

absl::StatusOr<Tensor> rms_norm(const Tensor& self, const Tensor* weight,
                                double eps) {
  return forward("dw::rms_norm", self, weight, nullptr, eps, false);
}

absl::StatusOr<ThreeTensors> layer_norm_backward(const Tensor& grad,
                                                 const Tensor& self,
                                                 const Tensor* weight,
                                                 double eps) {
  return backward("dw::layer_norm_backward", grad, self, weight, eps, true);
}

absl::StatusOr<TwoTensors> rms_norm_backward(const Tensor& grad,
                                             const Tensor& self,
                                             const Tensor* weight, double eps) {
  absl::StatusOr<ThreeTensors> out =
      backward("dw::rms_norm_backward", grad, self, weight, eps, false);
  if (!out.ok()) return std::move(out).status();
  return TwoTensors(std::get<0>(*out), std::get<1>(*out));
}

DW_OPERATORS(lib) {
  using namespace distwrap::dispatch;
  lib.impl("dw::layer_norm", {kDense, kCpu}, kernel<&layer_norm>());
  lib.impl("dw::rms_norm", {kDense, kCpu}, kernel<&rms_norm>());
  lib.impl("dw::layer_norm_backward", {kDense, kCpu},
           kernel<&layer_norm_backward>());
  lib.impl("dw::rms_norm_backward", {kDense, kCpu},
           kernel<&rms_norm_backward>());
}

}  // namespace distwrap::cpu
