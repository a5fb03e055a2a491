// Operators of a program's own: a definition, a kernel of it, a gradient, a
// kernel for somebody else's operator, and a logger for all operators.
#include <distwrap/autograd.h>
#include <distwrap/function.h>
#include <distwrap/registration.h>
#include <distwrap/throwing.h>

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

static const auto scale_op =
    d::find_op<Tensor(const Tensor&, double)>("demo::scale");

struct Scale : dw::autograd::Formula<Scale> {
  static constexpr char kName[] = "demo::scale";
  static absl::StatusOr<Tensor> forward(dw::autograd::Ctx& ctx, const Tensor& x,
                                        double factor) {
    ctx.put("factor", factor);
    return scale_op.call(x, factor);
  }
  static dw::autograd::Grads backward(dw::autograd::Ctx& ctx,
                                      absl::Span<const Tensor> grads) {
    return {unwrap(scale_op.call(grads[0], ctx.get<double>("factor")))};
  }
};

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
  lib.fallback(d::kUser1, d::boxed(&log_call));
}

int main() try {
  check(d::registry_status());
  const auto cube_op = d::find_op<Tensor(const Tensor&)>("demo::cube");
  const Tensor x = full({}, 2.0);
  check(x.set_requires_grad());
  const Tensor y = unwrap(cube_op.call(unwrap(scale_op.call(x, 3.0))));
  check(dw::autograd::backward({y}));
  std::cout << "(3 * 2)^3 = " << unwrap(y.item()).to<double>()
            << ", its derivative " << unwrap(x.grad().item()).to<double>()
            << "\noperators of demo::cube:\n";
  const d::IncludeGuard logged{d::KeySet(d::kUser1)};
  check(cube_op.call(x).status());
  return 0;
} catch (const std::exception& error) {
  std::cerr << error.what() << "\n";
  return 1;
}
