// Elementwise operators of two tensors, where, and gradients of activations.
#include "cpu/convert.h"
#include "cpu/pass.h"
#include "cpu/strided_copy.h"
#include "distwrap/arguments.h"
#include "distwrap/outputs.h"
#include "distwrap/registration.h"

#include <utility>

namespace distwrap::cpu {
namespace {

using outputs::Types;

void run_binary(Op op, const Tensor& out, const Tensor& self,
                const Tensor& other, const Scalar& alpha = 1) {
  const DType type = compute_type(self.dtype());
  const Number factor = op == Op::kAdd ? Number::of(alpha, type) : Number();
  Pass pass(out.sizes());
  pass.writes(out);
  pass.reads(self);
  pass.reads(other);
  pass.run(loops().find(op, type), &factor);
}

absl::StatusOr<Tensor> binary(absl::string_view name, Op op, const Tensor& self,
                              const Tensor& other, Types types,
                              const Scalar& alpha = 1) {
  absl::StatusOr<Tensor> out = outputs::elementwise(name, self, other, types);
  if (out.ok()) run_binary(op, *out, self, other, alpha);
  return out;
}

absl::StatusOr<Tensor> compare(absl::string_view name, Op op,
                               const Tensor& self, const Tensor& other) {
  absl::StatusOr<Tensor> out =
      outputs::comparison(name, self, other, Types::kAll);
  if (out.ok()) run_binary(op, *out, self, other);
  return out;
}

absl::StatusOr<Tensor> backward(absl::string_view name, Op op,
                                const Tensor& grad, const Tensor& self) {
  absl::StatusOr<Tensor> out = outputs::gradient(name, grad, self);
  if (out.ok()) run_binary(op, *out, grad, self);
  return out;
}

Scalar minus(const Scalar& value) {
  if (value.is_float()) return -value.to<double>();
  return static_cast<int64_t>(uint64_t{0} -
                              static_cast<uint64_t>(value.to<int64_t>()));
}

// self becomes self `op` other.
absl::Status update(absl::string_view name, Op op, const Tensor& self,
                    const Tensor& other, const Scalar& alpha = 1) {
  if (absl::Status status =
          outputs::check_update(name, self, other, Types::kAll);
      !status.ok()) {
    return status;
  }
  if (share_memory(self, other) && !same_elements(self, other)) {
    absl::StatusOr<Tensor> own = copy_of(other);
    if (!own.ok()) return own.status();
    run_binary(op, self, self, *own, alpha);
  } else {
    run_binary(op, self, self, other, alpha);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Tensor> add(const Tensor& self, const Tensor& other,
                           const Scalar& alpha) {
  if (absl::Status status = outputs::check_factor("dw::add", self, alpha);
      !status.ok()) {
    return status;
  }
  return binary("dw::add", Op::kAdd, self, other, Types::kAll, alpha);
}

absl::StatusOr<Tensor> sub(const Tensor& self, const Tensor& other,
                           const Scalar& alpha) {
  if (absl::Status status = outputs::check_factor("dw::sub", self, alpha);
      !status.ok()) {
    return status;
  }
  return binary("dw::sub", Op::kAdd, self, other, Types::kNumbers,
                minus(alpha));
}

absl::StatusOr<Tensor> mul(const Tensor& self, const Tensor& other) {
  return binary("dw::mul", Op::kMul, self, other, Types::kAll);
}

absl::StatusOr<Tensor> div(const Tensor& self, const Tensor& other) {
  return binary("dw::div", Op::kDiv, self, other, Types::kFloats);
}

absl::StatusOr<Tensor> maximum(const Tensor& self, const Tensor& other) {
  return binary("dw::maximum", Op::kMaximum, self, other, Types::kAll);
}

absl::StatusOr<Tensor> eq(const Tensor& self, const Tensor& other) {
  return compare("dw::eq", Op::kEq, self, other);
}

absl::StatusOr<Tensor> lt(const Tensor& self, const Tensor& other) {
  return compare("dw::lt", Op::kLt, self, other);
}

absl::StatusOr<Tensor> where(const Tensor& condition, const Tensor& self,
                             const Tensor& other) {
  absl::StatusOr<Tensor> out = outputs::where(condition, self, other);
  if (!out.ok()) return out;
  Pass pass(out->sizes());
  pass.raw();
  pass.writes(*out);
  pass.reads(condition);
  pass.reads(self);
  pass.reads(other);
  pass.run(loops().where(dtype_size(self.dtype())));
  return out;
}

absl::StatusOr<Tensor> gelu_backward(const Tensor& grad, const Tensor& self) {
  return backward("dw::gelu_backward", Op::kGeluBackward, grad, self);
}

absl::StatusOr<Tensor> silu_backward(const Tensor& grad, const Tensor& self) {
  return backward("dw::silu_backward", Op::kSiluBackward, grad, self);
}

absl::Status add_(const Tensor& self, const Tensor& other,
                  const Scalar& alpha) {
  if (absl::Status status = outputs::check_factor("dw::add_", self, alpha);
      !status.ok()) {
    return status;
  }
  return update("dw::add_", Op::kAdd, self, other, alpha);
}

absl::Status mul_(const Tensor& self, const Tensor& other) {
  return update("dw::mul_", Op::kMul, self, other);
}

DW_OPERATORS(lib) {
  using namespace distwrap::dispatch;
  lib.impl("dw::add.Tensor", {kDense, kCpu}, kernel<&add>());
  lib.impl("dw::sub.Tensor", {kDense, kCpu}, kernel<&sub>());
  lib.impl("dw::mul.Tensor", {kDense, kCpu}, kernel<&mul>());
  lib.impl("dw::div.Tensor", {kDense, kCpu}, kernel<&div>());
  lib.impl("dw::maximum", {kDense, kCpu}, kernel<&maximum>());
  lib.impl("dw::eq.Tensor", {kDense, kCpu}, kernel<&eq>());
  lib.impl("dw::lt.Tensor", {kDense, kCpu}, kernel<&lt>());
  lib.impl("dw::where", {kDense, kCpu}, kernel<&where>());
  lib.impl("dw::gelu_backward", {kDense, kCpu}, kernel<&gelu_backward>());
  lib.impl("dw::silu_backward", {kDense, kCpu}, kernel<&silu_backward>());
  lib.impl("dw::add_.Tensor", {kDense, kCpu}, kernel<&add_>());
  lib.impl("dw::mul_.Tensor", {kDense, kCpu}, kernel<&mul_>());
}

}  // namespace distwrap::cpu
