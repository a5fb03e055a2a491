// Elementwise operators of one tensor.
#include "cpu/convert.h"
#include "cpu/pass.h"
#include "distwrap/arguments.h"
#include "distwrap/outputs.h"
#include "distwrap/registration.h"

namespace distwrap::cpu {
namespace {

using outputs::Types;

absl::StatusOr<Tensor> unary(absl::string_view name, Op op, const Tensor& self,
                             Types types) {
  absl::StatusOr<Tensor> out = outputs::elementwise(name, self, types);
  if (!out.ok()) return out;
  Pass pass(out->sizes());
  pass.writes(*out);
  pass.reads(self);
  pass.run(loops().find(op, compute_type(self.dtype())));
  return out;
}

}  // namespace

#define DW_UNARY(name, op, types)                           \
  absl::StatusOr<Tensor> name(const Tensor& self) {         \
    return unary("dw::" #name, Op::op, self, Types::types); \
  }
DW_UNARY(neg, kNeg, kNumbers)
DW_UNARY(abs, kAbs, kNumbers)
DW_UNARY(sign, kSign, kNumbers)
DW_UNARY(exp, kExp, kFloats)
DW_UNARY(log, kLog, kFloats)
DW_UNARY(sqrt, kSqrt, kFloats)
DW_UNARY(rsqrt, kRsqrt, kFloats)
DW_UNARY(sin, kSin, kFloats)
DW_UNARY(cos, kCos, kFloats)
DW_UNARY(tanh, kTanh, kFloats)
DW_UNARY(sigmoid, kSigmoid, kFloats)
DW_UNARY(relu, kRelu, kNumbers)
DW_UNARY(gelu, kGelu, kFloats)
DW_UNARY(silu, kSilu, kFloats)
#undef DW_UNARY

DW_OPERATORS(lib) {
  using namespace distwrap::dispatch;
  lib.impl("dw::neg", {kDense, kCpu}, kernel<&neg>());
  lib.impl("dw::abs", {kDense, kCpu}, kernel<&abs>());
  lib.impl("dw::sign", {kDense, kCpu}, kernel<&sign>());
  lib.impl("dw::exp", {kDense, kCpu}, kernel<&exp>());
  lib.impl("dw::log", {kDense, kCpu}, kernel<&log>());
  lib.impl("dw::sqrt", {kDense, kCpu}, kernel<&sqrt>());
  lib.impl("dw::rsqrt", {kDense, kCpu}, kernel<&rsqrt>());
  lib.impl("dw::sin", {kDense, kCpu}, kernel<&sin>());
  lib.impl("dw::cos", {kDense, kCpu}, kernel<&cos>());
  lib.impl("dw::tanh", {kDense, kCpu}, kernel<&tanh>());
  lib.impl("dw::sigmoid", {kDense, kCpu}, kernel<&sigmoid>());
  lib.impl("dw::relu", {kDense, kCpu}, kernel<&relu>());
  lib.impl("dw::gelu", {kDense, kCpu}, kernel<&gelu>());
  lib.impl("dw::silu", {kDense, kCpu}, kernel<&silu>());
}

}  // namespace distwrap::cpu
