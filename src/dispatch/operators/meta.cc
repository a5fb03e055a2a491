// Kernels for meta tensors, which have a shape and no memory: each checks the
// arguments and makes the output by the shape rules that all devices share.
#include "distwrap/arguments.h"
#include "distwrap/outputs.h"
#include "distwrap/random.h"
#include "distwrap/registration.h"

#include <optional>
#include <utility>

namespace distwrap::dispatch {
namespace {

namespace meta {

using MaybeTensor = absl::StatusOr<Tensor>;
using outputs::Types;

MaybeTensor empty(Ints size, DType dtype, Device device) {
  return Tensor::empty(size, dtype, device);
}
MaybeTensor full(Ints size, const Scalar&, DType dtype, Device device) {
  return Tensor::empty(size, dtype, device);
}
MaybeTensor rand(Ints size, DType dtype, Device device,
                 std::optional<Generator>) {
  return outputs::random("dw::rand", size, dtype, device);
}
MaybeTensor randn(Ints size, DType dtype, Device device,
                  std::optional<Generator>) {
  return outputs::random("dw::randn", size, dtype, device);
}
absl::Status copy_(const Tensor& self, const Tensor& src) {
  return outputs::copy_(self, src).status();
}
absl::Status fill_(const Tensor& self, const Scalar&) {
  return outputs::check_written("dw::fill_", self);
}
MaybeTensor slice_scatter(const Tensor& self, const Tensor& src, int64_t dim,
                          int64_t start, int64_t end, int64_t step) {
  absl::StatusOr<outputs::Slice> slice =
      outputs::slice_scatter(self, src, dim, start, end, step);
  if (!slice.ok()) return std::move(slice).status();
  return std::move(slice->out);
}
MaybeTensor pad(const Tensor& self, Ints amounts, const Scalar&) {
  return outputs::pad(self, amounts);
}

#define DW_UNARY(name, types)                                      \
  MaybeTensor name(const Tensor& self) {                           \
    return outputs::elementwise("dw::" #name, self, Types::types); \
  }
DW_UNARY(clone, kAll)
DW_UNARY(neg, kNumbers)
DW_UNARY(abs, kNumbers)
DW_UNARY(sign, kNumbers)
DW_UNARY(relu, kNumbers)
DW_UNARY(exp, kFloats)
DW_UNARY(log, kFloats)
DW_UNARY(sqrt, kFloats)
DW_UNARY(rsqrt, kFloats)
DW_UNARY(sin, kFloats)
DW_UNARY(cos, kFloats)
DW_UNARY(tanh, kFloats)
DW_UNARY(sigmoid, kFloats)
DW_UNARY(gelu, kFloats)
DW_UNARY(silu, kFloats)
#undef DW_UNARY

#define DW_BINARY(name, rule, types)                               \
  MaybeTensor name(const Tensor& self, const Tensor& other) {      \
    return outputs::rule("dw::" #name, self, other, Types::types); \
  }
DW_BINARY(mul, elementwise, kAll)
DW_BINARY(div, elementwise, kFloats)
DW_BINARY(maximum, elementwise, kAll)
DW_BINARY(eq, comparison, kAll)
DW_BINARY(lt, comparison, kAll)
#undef DW_BINARY

MaybeTensor add(const Tensor& self, const Tensor& other, const Scalar& alpha) {
  absl::Status status = outputs::check_factor("dw::add", self, alpha);
  if (!status.ok()) return status;
  return outputs::elementwise("dw::add", self, other, Types::kAll);
}
MaybeTensor sub(const Tensor& self, const Tensor& other, const Scalar& alpha) {
  absl::Status status = outputs::check_factor("dw::sub", self, alpha);
  if (!status.ok()) return status;
  return outputs::elementwise("dw::sub", self, other, Types::kNumbers);
}
absl::Status add_(const Tensor& self, const Tensor& other,
                  const Scalar& alpha) {
  absl::Status status = outputs::check_factor("dw::add_", self, alpha);
  if (!status.ok()) return status;
  return outputs::check_update("dw::add_", self, other, Types::kAll);
}
absl::Status mul_(const Tensor& self, const Tensor& other) {
  return outputs::check_update("dw::mul_", self, other, Types::kAll);
}
absl::Status adamw_(const Tensor& self, const Tensor& grad, const Tensor& mean,
                    const Tensor& variance, int64_t step, double, double,
                    double, double, double) {
  return outputs::adamw_(self, grad, mean, variance, step);
}

MaybeTensor softmax(const Tensor& self, int64_t dim) {
  return outputs::softmax("dw::softmax", self, dim);
}
MaybeTensor log_softmax(const Tensor& self, int64_t dim) {
  return outputs::softmax("dw::log_softmax", self, dim);
}
MaybeTensor layer_norm(const Tensor& self, const Tensor* weight,
                       const Tensor* bias, double) {
  return outputs::norm("dw::layer_norm", self, weight, bias);
}
MaybeTensor rms_norm(const Tensor& self, const Tensor* weight, double) {
  return outputs::norm("dw::rms_norm", self, weight, nullptr);
}
MaybeTensor nll_loss(const Tensor& self, const Tensor& target, int64_t) {
  return outputs::nll_loss(self, target);
}
absl::StatusOr<TwoTensors> attention_forward(const Tensor& query,
                                             const Tensor& key,
                                             const Tensor& value,
                                             const Tensor* mask, bool,
                                             std::optional<double>) {
  return outputs::attention_forward(query, key, value, mask);
}
MaybeTensor dropout(const Tensor& self, double p, bool,
                    std::optional<Generator>) {
  return outputs::dropout(self, p);
}

MaybeTensor gelu_backward(const Tensor& grad, const Tensor& self) {
  return outputs::gradient("dw::gelu_backward", grad, self);
}
MaybeTensor silu_backward(const Tensor& grad, const Tensor& self) {
  return outputs::gradient("dw::silu_backward", grad, self);
}
MaybeTensor softmax_backward(const Tensor& grad, const Tensor& output,
                             int64_t dim) {
  return outputs::softmax_backward("dw::softmax_backward", grad, output, dim);
}
MaybeTensor log_softmax_backward(const Tensor& grad, const Tensor& output,
                                 int64_t dim) {
  return outputs::softmax_backward("dw::log_softmax_backward", grad, output,
                                   dim);
}
absl::StatusOr<ThreeTensors> layer_norm_backward(const Tensor& grad,
                                                 const Tensor& self,
                                                 const Tensor* weight, double) {
  return outputs::norm_backward("dw::layer_norm_backward", grad, self, weight);
}
absl::StatusOr<TwoTensors> rms_norm_backward(const Tensor& grad,
                                             const Tensor& self,
                                             const Tensor* weight, double) {
  absl::StatusOr<ThreeTensors> out =
      outputs::norm_backward("dw::rms_norm_backward", grad, self, weight);
  if (!out.ok()) return std::move(out).status();
  return TwoTensors(std::get<0>(*out), std::get<1>(*out));
}
absl::StatusOr<ThreeTensors> attention_backward(
    const Tensor& grad, const Tensor& query, const Tensor& key,
    const Tensor& value, const Tensor* mask, const Tensor& output,
    const Tensor& logsumexp, bool, double) {
  return outputs::attention_backward(grad, query, key, value, mask, output,
                                     logsumexp);
}

}  // namespace meta

// The shape rule itself has the signature of the operator.
#define DW_RULE(name) lib.impl("dw::" #name, place, kernel<&outputs::name>())
#define DW_META(name, function) \
  lib.impl("dw::" name, place, kernel<&meta::function>())

DW_OPERATORS(lib) {
  const Target place{kDense, kMeta};
  DW_RULE(arange);
  DW_RULE(to_copy);
  DW_RULE(cat);
  DW_RULE(as_strided_backward);
  DW_RULE(where);
  DW_RULE(mm);
  DW_RULE(bmm);
  DW_RULE(sum);
  DW_RULE(amax);
  DW_RULE(embedding);
  DW_RULE(gather);
  DW_RULE(index_add);
  DW_RULE(scatter_add);
  DW_META("empty", empty);
  DW_META("full", full);
  DW_META("rand", rand);
  DW_META("randn", randn);
  DW_META("clone", clone);
  DW_META("copy_", copy_);
  DW_META("fill_", fill_);
  DW_META("slice_scatter", slice_scatter);
  DW_META("pad", pad);
  DW_META("neg", neg);
  DW_META("abs", abs);
  DW_META("sign", sign);
  DW_META("relu", relu);
  DW_META("exp", exp);
  DW_META("log", log);
  DW_META("sqrt", sqrt);
  DW_META("rsqrt", rsqrt);
  DW_META("sin", sin);
  DW_META("cos", cos);
  DW_META("tanh", tanh);
  DW_META("sigmoid", sigmoid);
  DW_META("gelu", gelu);
  DW_META("silu", silu);
  DW_META("add.Tensor", add);
  DW_META("sub.Tensor", sub);
  DW_META("mul.Tensor", mul);
  DW_META("div.Tensor", div);
  DW_META("maximum", maximum);
  DW_META("eq.Tensor", eq);
  DW_META("lt.Tensor", lt);
  DW_META("add_.Tensor", add_);
  DW_META("mul_.Tensor", mul_);
  DW_META("adamw_", adamw_);
  DW_META("softmax", softmax);
  DW_META("log_softmax", log_softmax);
  DW_META("layer_norm", layer_norm);
  DW_META("rms_norm", rms_norm);
  DW_META("nll_loss", nll_loss);
  DW_META("attention_forward", attention_forward);
  DW_META("dropout", dropout);
  DW_META("gelu_backward", gelu_backward);
  DW_META("silu_backward", silu_backward);
  DW_META("softmax_backward", softmax_backward);
  DW_META("log_softmax_backward", log_softmax_backward);
  DW_META("layer_norm_backward", layer_norm_backward);
  DW_META("rms_norm_backward", rms_norm_backward);
  DW_META("attention_backward", attention_backward);
}

#undef DW_RULE
#undef DW_META

}  // namespace
}  // namespace distwrap::dispatch
