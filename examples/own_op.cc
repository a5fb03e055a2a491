// A library of operators: two definitions, a kernel and a gradient, a kernel
// for somebody else's operator, and a logger for all operators. It is a shared
// object that knows no program; examples/use_own_op.cc loads it.
#include <distwrap/autograd.h>
#include <distwrap/function.h>
#include <distwrap/registration.h>
#include <distwrap/throwing.h>

#include <cmath>
#include <iostream>

namespace dw = distwrap;
namespace d = distwrap::dispatch;
using dw::Tensor;
using namespace dw::throwing;

// demo::cube is made of other operators, so it serves all devices and has a
// gradient without a line about either.
static Tensor cube(const Tensor& x) { return x * x * x; }

// demo::scale has a kernel for the CPU and a gradient of its own.
static absl::StatusOr<Tensor> scale_cpu(const Tensor& x, double factor) {
  absl::StatusOr<Tensor> y = Tensor::empty(x.sizes(), x.dtype());
  if (!y.ok()) return y;
  const Tensor dense = contiguous(x);
  for (int64_t i = 0; i < x.count(); ++i) {
    y->data<float>()[i] = dense.data<float>()[i] * static_cast<float>(factor);
  }
  return y;
}

struct Scale : dw::autograd::Formula<Scale> {
  static constexpr char kName[] = "demo::scale";
  static const auto& op() {
    static const auto found =
        d::find_op<Tensor(const Tensor&, double)>("demo::scale");
    return found;
  }
  static absl::StatusOr<Tensor> forward(dw::autograd::Ctx& ctx, const Tensor& x,
                                        double factor) {
    ctx.put("factor", factor);
    return op().call(x, factor);
  }
  static dw::autograd::Grads backward(dw::autograd::Ctx& ctx,
                                      absl::Span<const Tensor> grads) {
    return {unwrap(op().call(grads[0], ctx.get<double>("factor")))};
  }
};

// A faster gelu for the CPU, by tanh, on top of the kernel that is there. The
// gradient of dw::gelu stays.
static absl::StatusOr<Tensor> gelu_by_tanh(const Tensor& x) {
  absl::StatusOr<Tensor> y = Tensor::empty(x.sizes(), x.dtype());
  if (!y.ok()) return y;
  const Tensor dense = contiguous(x);
  for (int64_t i = 0; i < x.count(); ++i) {
    const float v = dense.data<float>()[i];
    y->data<float>()[i] =
        v / 2 * (1 + std::tanh(0.7978846F * (v + 0.044715F * v * v * v)));
  }
  return y;
}

// Sees every operator while its layer is included, whoever wrote it.
static absl::Status log_call(const d::OpHandle& op, d::KeySet set,
                             dw::Stack& stack) {
  std::cout << "  " << op.name() << "\n";
  return op.redispatch_boxed(set.below(d::kUser1), stack);
}

DW_OPERATORS(lib) {
  d::Namespace demo = lib.own("demo");
  demo.def("cube(Tensor x) -> Tensor", {d::Tag::kPointwise});
  demo.impl("cube", d::kCompositeImplicit, d::kernel<&cube>());
  demo.def("scale(Tensor x, float factor) -> Tensor", {d::Tag::kPointwise});
  demo.impl("scale", {d::kDense, dw::kCpu}, d::kernel<&scale_cpu>());
  demo.impl("scale", d::kAutograd,
            dw::autograd::formula<Scale, Tensor(const Tensor&, double)>());
  lib.impl("dw::gelu", {d::kDense, dw::kCpu}, d::kernel<&gelu_by_tanh>(),
           d::Existing::kOverride);
  lib.fallback(d::kUser1, d::boxed(&log_call));
}
