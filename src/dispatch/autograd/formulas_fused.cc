// Gradients of fused operators. The gradient is a fused operator, too; when it
// has to be differentiated again, it is computed from simple operators instead.
#include "dispatch/autograd/formulas.h"

#include <cmath>

namespace distwrap::autograd {
namespace {

using namespace throwing;  // NOLINT(google-build-using-namespace)

// A formula whose gradient needs the result alone.
#define DW_SOFTMAX(type, operation)                                     \
  struct type : Formula<type> {                                         \
    static constexpr char kName[] = "dw::" #operation;                  \
    static Tensor forward(Ctx& ctx, const Tensor& self, int64_t dim) {  \
      Tensor out = throwing::operation(self, dim);                      \
      ctx.save_for_backward({out});                                     \
      ctx.put("dim", dim);                                              \
      return out;                                                       \
    }                                                                   \
    static Grads backward(Ctx& ctx, GradSpan grads) {                   \
      return {throwing::operation##_backward(grads[0], ctx.saved(0),    \
                                             ctx.get<int64_t>("dim"))}; \
    }                                                                   \
  };
DW_SOFTMAX(Softmax, softmax)
DW_SOFTMAX(LogSoftmax, log_softmax)
#undef DW_SOFTMAX

Tensor softmax_backward_by_parts(const Tensor& grad, const Tensor& output,
                                 int64_t dim) {
  const Tensor weighted = grad * output;
  return weighted - output * throwing::sum(weighted, Ints({dim}), true);
}

Tensor log_softmax_backward_by_parts(const Tensor& grad, const Tensor& output,
                                     int64_t dim) {
  return grad - throwing::exp(output) * throwing::sum(grad, Ints({dim}), true);
}

Tensor mean_of_rows(const Tensor& tensor) {
  return throwing::mean(tensor, Ints({-1}), true);
}
// The sum over all dimensions but the last.
Tensor sum_of_rows(const Tensor& tensor) {
  return sum_to(tensor, {tensor.size(-1)});
}

struct LayerNorm : Formula<LayerNorm> {
  static constexpr char kName[] = "dw::layer_norm";
  static Tensor forward(Ctx& ctx, const Tensor& self, const Tensor* weight,
                        const Tensor* bias, double eps) {
    ctx.save_for_backward({self, weight == nullptr ? Tensor() : *weight});
    ctx.put("eps", eps);
    return throwing::layer_norm(self, weight, bias, eps);
  }
  static Grads backward(Ctx& ctx, GradSpan grads) {
    const Tensor weight = ctx.saved(1);
    auto [self, of_weight, of_bias] = throwing::layer_norm_backward(
        grads[0], ctx.saved(0), weight.defined() ? &weight : nullptr,
        ctx.get<double>("eps"));
    return {self, weight.defined() ? of_weight : Tensor(),
            ctx.needs_input_grad(2) ? of_bias : Tensor()};
  }
};
ThreeTensors layer_norm_backward_by_parts(const Tensor& grad,
                                          const Tensor& self,
                                          const Tensor* weight, double eps) {
  const Tensor centered = self - mean_of_rows(self);
  const Tensor scale = throwing::rsqrt(mean_of_rows(centered * centered) + eps);
  const Tensor normal = centered * scale;
  const Tensor weighted = weight == nullptr ? grad : grad * *weight;
  return {scale * (weighted - mean_of_rows(weighted) -
                   normal * mean_of_rows(weighted * normal)),
          sum_of_rows(grad * normal), sum_of_rows(grad)};
}

struct RmsNorm : Formula<RmsNorm> {
  static constexpr char kName[] = "dw::rms_norm";
  static Tensor forward(Ctx& ctx, const Tensor& self, const Tensor* weight,
                        double eps) {
    ctx.save_for_backward({self, weight == nullptr ? Tensor() : *weight});
    ctx.put("eps", eps);
    return throwing::rms_norm(self, weight, eps);
  }
  static Grads backward(Ctx& ctx, GradSpan grads) {
    const Tensor weight = ctx.saved(1);
    auto [self, of_weight] = throwing::rms_norm_backward(
        grads[0], ctx.saved(0), weight.defined() ? &weight : nullptr,
        ctx.get<double>("eps"));
    return {self, weight.defined() ? of_weight : Tensor()};
  }
};
TwoTensors rms_norm_backward_by_parts(const Tensor& grad, const Tensor& self,
                                      const Tensor* weight, double eps) {
  const Tensor scale = throwing::rsqrt(mean_of_rows(self * self) + eps);
  const Tensor normal = self * scale;
  const Tensor weighted = weight == nullptr ? grad : grad * *weight;
  return {scale * (weighted - normal * mean_of_rows(weighted * normal)),
          sum_of_rows(grad * normal)};
}

struct Attention : Formula<Attention> {
  static constexpr char kName[] = "dw::attention_forward";
  static TwoTensors forward(Ctx& ctx, const Tensor& query, const Tensor& key,
                            const Tensor& value, const Tensor* mask,
                            bool causal, std::optional<double> scale) {
    TwoTensors out =
        throwing::attention_forward(query, key, value, mask, causal, scale);
    ctx.save_for_backward({query, key, value,
                           mask == nullptr ? Tensor() : *mask, std::get<0>(out),
                           std::get<1>(out)});
    ctx.mark_non_differentiable(std::get<1>(out));
    ctx.put("causal", causal);
    ctx.put("scale",
            scale.value_or(1 / std::sqrt(static_cast<double>(
                                   std::max<int64_t>(query.size(-1), 1)))));
    return out;
  }
  static Grads backward(Ctx& ctx, GradSpan grads) {
    const Tensor mask = ctx.saved(3);
    auto [query, key, value] = throwing::attention_backward(
        grads[0], ctx.saved(0), ctx.saved(1), ctx.saved(2),
        mask.defined() ? &mask : nullptr, ctx.saved(4), ctx.saved(5),
        ctx.get<bool>("causal"), ctx.get<double>("scale"));
    return {query, key, value, Tensor()};
  }
};
// The whole matrix of scores is made here.
ThreeTensors attention_backward_by_parts(
    const Tensor& grad, const Tensor& query, const Tensor& key,
    const Tensor& value, const Tensor* mask, const Tensor& /*output*/,
    const Tensor& /*logsumexp*/, bool causal, double scale) {
  Tensor scores = throwing::matmul(query, throwing::transpose(key)) * scale;
  const int64_t rows = query.size(-2), columns = key.size(-2);
  // true: the pair takes part.
  Tensor allowed;
  const auto both = [&](const Tensor& more) {
    allowed = allowed.defined()
                  ? throwing::where(
                        allowed, more,
                        throwing::full({}, false, DType::kBool, grad.device()))
                  : more;
  };
  if (mask != nullptr && mask->dtype() != DType::kBool) {
    scores = scores + *mask;
  } else if (mask != nullptr) {
    both(*mask);
  }
  if (causal) {
    const Tensor row =
        throwing::unsqueeze(throwing::arange(columns - rows, columns, 1,
                                             DType::kI64, grad.device()),
                            1);
    const Tensor column =
        throwing::arange(0, columns, 1, DType::kI64, grad.device());
    both(throwing::lt(column, row + Scalar(1)));
  }
  if (allowed.defined()) {
    scores = throwing::where(
        allowed, scores,
        throwing::full({}, -1e30, scores.dtype(), scores.device()));
  }
  Tensor weights = throwing::softmax(scores);
  if (allowed.defined()) {
    weights =
        throwing::where(allowed, weights,
                        throwing::full({}, 0, scores.dtype(), scores.device()));
  }
  const Tensor of_weights = throwing::matmul(grad, throwing::transpose(value));
  const Tensor weighted = of_weights * weights;
  const Tensor of_scores =
      (weighted - weights * throwing::sum(weighted, Ints({-1}), true)) * scale;
  return {throwing::matmul(of_scores, key),
          throwing::matmul(throwing::transpose(of_scores), query),
          throwing::matmul(throwing::transpose(weights), grad)};
}

struct Dropout : Formula<Dropout> {
  static constexpr char kName[] = "dw::dropout";
  static Tensor forward(Ctx& ctx, const Tensor& self, double p, bool train,
                        std::optional<Generator> generator) {
    // The gradient draws the same numbers again, so no mask is kept.
    const Generator drawn = generator.has_value() ? *generator
                            : train               ? next_generator()
                                                  : Generator();
    ctx.put("p", p);
    ctx.put("train", train);
    ctx.put("generator", drawn);
    return throwing::dropout(self, p, train, drawn);
  }
  static Grads backward(Ctx& ctx, GradSpan grads) {
    return {throwing::dropout(grads[0], ctx.get<double>("p"),
                              ctx.get<bool>("train"),
                              ctx.get<Generator>("generator"))};
  }
};

}  // namespace

DW_OPERATORS(lib) {
  using dispatch::kAutograd;
  using dispatch::kernel;
  DW_FORMULA(Softmax, softmax_);
  DW_FORMULA(LogSoftmax, log_softmax_);
  DW_FORMULA(LayerNorm, layer_norm_);
  DW_FORMULA(RmsNorm, rms_norm_);
  DW_FORMULA(Attention, attention_forward_);
  DW_FORMULA(Dropout, dropout_);
  lib.impl("dw::softmax_backward", kAutograd,
           kernel<&softmax_backward_by_parts>());
  lib.impl("dw::log_softmax_backward", kAutograd,
           kernel<&log_softmax_backward_by_parts>());
  lib.impl("dw::layer_norm_backward", kAutograd,
           kernel<&layer_norm_backward_by_parts>());
  lib.impl("dw::rms_norm_backward", kAutograd,
           kernel<&rms_norm_backward_by_parts>());
  lib.impl("dw::attention_backward", kAutograd,
           kernel<&attention_backward_by_parts>());
}

}  // namespace distwrap::autograd
