// Gradients of operators that work element by element.
#include "dispatch/autograd/formulas.h"

#include <cmath>
#include <numbers>

namespace distwrap::autograd {

Tensor sum_to(const Tensor& grad, Ints sizes) {
  if (!grad.defined() || grad.sizes() == sizes) return grad;
  const size_t added = static_cast<size_t>(grad.dims()) - sizes.size();
  Dims repeated;
  for (size_t d = 0; d < static_cast<size_t>(grad.dims()); ++d) {
    const int64_t extent = grad.size(static_cast<int>(d));
    if (d < added || (sizes[d - added] == 1 && extent != 1)) {
      repeated.push_back(static_cast<int64_t>(d));
    }
  }
  return throwing::view(throwing::sum(grad, Ints(repeated), true), sizes);
}

namespace {

using namespace throwing;  // NOLINT(google-build-using-namespace)

// Formulas of one input whose gradient is g times something of the input, the
// result or both.
#define DW_UNARY(type, operation, gradient)                         \
  struct type : Formula<type> {                                     \
    static constexpr char kName[] = "dw::" #operation;              \
    static Tensor forward(Ctx& ctx, const Tensor& self) {           \
      Tensor out = throwing::operation(self);                       \
      ctx.save_for_backward({self, out});                           \
      return out;                                                   \
    }                                                               \
    static Grads backward(Ctx& ctx, GradSpan grads) {               \
      [[maybe_unused]] const Tensor& g = grads[0];                  \
      [[maybe_unused]] const auto x = [&] { return ctx.saved(0); }; \
      [[maybe_unused]] const auto y = [&] { return ctx.saved(1); }; \
      return {gradient};                                            \
    }                                                               \
  };
DW_UNARY(Neg, neg, -g)
DW_UNARY(Abs, abs, g* throwing::sign(x()))
DW_UNARY(Sign, sign, Tensor())
DW_UNARY(Exp, exp, g* y())
DW_UNARY(Log, log, g / x())
DW_UNARY(Sqrt, sqrt, g / (y() * 2.0))
DW_UNARY(Rsqrt, rsqrt, g*(y() * y() * y()) * -0.5)
DW_UNARY(Sin, sin, g* throwing::cos(x()))
DW_UNARY(Cos, cos, -(g* throwing::sin(x())))
DW_UNARY(Tanh, tanh, g*(1.0 - y() * y()))
DW_UNARY(Sigmoid, sigmoid, g*(y() * (1.0 - y())))
DW_UNARY(Relu, relu,
         throwing::where(
             throwing::lt(throwing::full({}, 0, g.dtype(), g.device()), y()), g,
             throwing::full({}, 0, g.dtype(), g.device())))
DW_UNARY(Gelu, gelu, throwing::gelu_backward(g, x()))
DW_UNARY(Silu, silu, throwing::silu_backward(g, x()))
#undef DW_UNARY

// The second derivative of gelu is (2 - x^2) times the normal density at x.
struct GeluBackward : Formula<GeluBackward> {
  static constexpr char kName[] = "dw::gelu_backward";
  static Tensor forward(Ctx& ctx, const Tensor& grad, const Tensor& self) {
    ctx.save_for_backward({grad, self});
    return throwing::gelu_backward(grad, self);
  }
  static Grads backward(Ctx& ctx, GradSpan grads) {
    const Tensor grad = ctx.saved(0), x = ctx.saved(1);
    const Tensor density = throwing::exp(x * x * -0.5) *
                           (std::numbers::inv_sqrtpi / std::numbers::sqrt2);
    return {throwing::gelu_backward(grads[0], x),
            grads[0] * grad * density * (2.0 - x * x)};
  }
};

Tensor silu_backward_by_parts(const Tensor& grad, const Tensor& self) {
  const Tensor s = throwing::sigmoid(self);
  return grad * (s * (1.0 + self * (1.0 - s)));
}

// The sizes of two operands, where they were repeated to fit each other.
void put_broadcast(Ctx& ctx, const Tensor& self, const Tensor& other) {
  if (self.sizes() == other.sizes()) return;
  ctx.put("self", self.sizes());
  ctx.put("other", other.sizes());
}
Tensor sum_back(const Ctx& ctx, const Tensor& grad, absl::string_view operand) {
  return ctx.has(operand) ? sum_to(grad, ctx.get<Ints>(operand)) : grad;
}

struct Add : Formula<Add> {
  static constexpr char kName[] = "dw::add.Tensor";
  static Tensor forward(Ctx& ctx, const Tensor& self, const Tensor& other,
                        const Scalar& alpha) {
    put_broadcast(ctx, self, other);
    ctx.put("alpha", alpha);
    return throwing::add(self, other, alpha);
  }
  static Grads backward(Ctx& ctx, GradSpan grads) {
    const auto alpha = ctx.get<Scalar>("alpha");
    Grads result(2);
    if (ctx.needs_input_grad(0)) {
      result[0] = sum_back(ctx, grads[0], "self");
    }
    if (ctx.needs_input_grad(1)) {
      const Tensor g = sum_back(ctx, grads[0], "other");
      result[1] = alpha.to<double>() == 1 ? g : g * alpha;
    }
    return result;
  }
};

struct AddInPlace : Formula<AddInPlace> {
  static constexpr char kName[] = "dw::add_.Tensor";
  static constexpr bool kInPlace = true;
  static void forward(Ctx& ctx, const Tensor& self, const Tensor& other,
                      const Scalar& alpha) {
    put_broadcast(ctx, self, other);
    ctx.put("alpha", alpha);
    throwing::add_(self, other, alpha);
  }
  static Grads backward(Ctx& ctx, GradSpan grads) {
    return Add::backward(ctx, grads);
  }
};

struct Sub : Formula<Sub> {
  static constexpr char kName[] = "dw::sub.Tensor";
  static Tensor forward(Ctx& ctx, const Tensor& self, const Tensor& other,
                        const Scalar& alpha) {
    put_broadcast(ctx, self, other);
    ctx.put("alpha", alpha);
    return throwing::sub(self, other, alpha);
  }
  static Grads backward(Ctx& ctx, GradSpan grads) {
    Grads result = Add::backward(ctx, grads);
    if (result[1].defined()) result[1] = -result[1];
    return result;
  }
};

struct Mul : Formula<Mul> {
  static constexpr char kName[] = "dw::mul.Tensor";
  static Tensor forward(Ctx& ctx, const Tensor& self, const Tensor& other) {
    ctx.save_for_backward({self, other});
    return throwing::mul(self, other);
  }
  static Grads backward(Ctx& ctx, GradSpan grads) {
    const Tensor self = ctx.saved(0), other = ctx.saved(1);
    Grads result(2);
    if (ctx.needs_input_grad(0)) {
      result[0] = sum_to(grads[0] * other, self.sizes());
    }
    if (ctx.needs_input_grad(1)) {
      result[1] = sum_to(grads[0] * self, other.sizes());
    }
    return result;
  }
};

struct MulInPlace : Formula<MulInPlace> {
  static constexpr char kName[] = "dw::mul_.Tensor";
  static constexpr bool kInPlace = true;
  static void forward(Ctx& ctx, const Tensor& self, const Tensor& other) {
    // The gradient of `other` needs the values that are overwritten, and that
    // of `self` needs `other`, which may be the same memory.
    const bool shared = other.storage().is_same(self.storage());
    ctx.save_for_backward(
        {ctx.needs_input_grad(1) ? ctx.copy_of_input(0, self) : Tensor(),
         shared ? ctx.copy_of_input(1, other) : other});
    throwing::mul_(self, other);
  }
  static Grads backward(Ctx& ctx, GradSpan grads) {
    const Tensor other = ctx.saved(1);
    Grads result = {grads[0] * other, Tensor()};
    if (ctx.needs_input_grad(1)) {
      result[1] = sum_to(grads[0] * ctx.saved(0), other.sizes());
    }
    return result;
  }
};

struct Div : Formula<Div> {
  static constexpr char kName[] = "dw::div.Tensor";
  static Tensor forward(Ctx& ctx, const Tensor& self, const Tensor& other) {
    ctx.save_for_backward({self, other});
    return throwing::div(self, other);
  }
  static Grads backward(Ctx& ctx, GradSpan grads) {
    const Tensor self = ctx.saved(0), other = ctx.saved(1);
    Grads result(2);
    if (ctx.needs_input_grad(0)) {
      result[0] = sum_to(grads[0] / other, self.sizes());
    }
    if (ctx.needs_input_grad(1)) {
      result[1] = sum_to(-(grads[0] * ((self / other) / other)), other.sizes());
    }
    return result;
  }
};

// Equal operands share the gradient.
struct Maximum : Formula<Maximum> {
  static constexpr char kName[] = "dw::maximum";
  static Tensor forward(Ctx& ctx, const Tensor& self, const Tensor& other) {
    ctx.save_for_backward({self, other});
    return throwing::maximum(self, other);
  }
  static Grads backward(Ctx& ctx, GradSpan grads) {
    const Tensor self = ctx.saved(0), other = ctx.saved(1), &g = grads[0];
    const Tensor zero = throwing::full({}, 0, g.dtype(), g.device());
    const Tensor half =
        throwing::where(throwing::eq(self, other), g * 0.5, zero);
    return {sum_to(throwing::where(throwing::lt(other, self), g, half),
                   self.sizes()),
            sum_to(throwing::where(throwing::lt(self, other), g, half),
                   other.sizes())};
  }
};

struct Where : Formula<Where> {
  static constexpr char kName[] = "dw::where";
  static Tensor forward(Ctx& ctx, const Tensor& condition, const Tensor& self,
                        const Tensor& other) {
    ctx.save_for_backward({condition});
    ctx.put("self", self.sizes());
    ctx.put("other", other.sizes());
    return throwing::where(condition, self, other);
  }
  static Grads backward(Ctx& ctx, GradSpan grads) {
    const Tensor condition = ctx.saved(0), &g = grads[0];
    const Tensor zero = throwing::full({}, 0, g.dtype(), g.device());
    Grads result(3);
    if (ctx.needs_input_grad(1)) {
      result[1] =
          sum_to(throwing::where(condition, g, zero), ctx.get<Ints>("self"));
    }
    if (ctx.needs_input_grad(2)) {
      result[2] =
          sum_to(throwing::where(condition, zero, g), ctx.get<Ints>("other"));
    }
    return result;
  }
};

}  // namespace

DW_OPERATORS(lib) {
  DW_FORMULA(Neg, neg_);
  DW_FORMULA(Abs, abs_);
  DW_FORMULA(Sign, sign_);
  DW_FORMULA(Exp, exp_);
  DW_FORMULA(Log, log_);
  DW_FORMULA(Sqrt, sqrt_);
  DW_FORMULA(Rsqrt, rsqrt_);
  DW_FORMULA(Sin, sin_);
  DW_FORMULA(Cos, cos_);
  DW_FORMULA(Tanh, tanh_);
  DW_FORMULA(Sigmoid, sigmoid_);
  DW_FORMULA(Relu, relu_);
  DW_FORMULA(Gelu, gelu_);
  DW_FORMULA(Silu, silu_);
  DW_FORMULA(GeluBackward, gelu_backward_);
  lib.impl("dw::silu_backward", dispatch::kAutograd,
           dispatch::kernel<&silu_backward_by_parts>());
  DW_FORMULA(Add, add_Tensor);
  DW_FORMULA(AddInPlace, add__Tensor);
  DW_FORMULA(Sub, sub_Tensor);
  DW_FORMULA(Mul, mul_Tensor);
  DW_FORMULA(MulInPlace, mul__Tensor);
  DW_FORMULA(Div, div_Tensor);
  DW_FORMULA(Maximum, maximum_);
  DW_FORMULA(Where, where_);
  // Results of type bool have no gradient.
  lib.impl("dw::eq.Tensor", dispatch::kAutograd, dispatch::fallthrough());
  lib.impl("dw::lt.Tensor", dispatch::kAutograd, dispatch::fallthrough());
}

}  // namespace distwrap::autograd
