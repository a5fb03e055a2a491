// Gradients of products, reductions and indexed operators.
#include "dispatch/autograd/formulas.h"
#include "distwrap/outputs.h"

#include <utility>

namespace distwrap::autograd {
namespace {

using namespace throwing;  // NOLINT(google-build-using-namespace)

struct Mm : Formula<Mm> {
  static constexpr char kName[] = "dw::mm";
  static Tensor forward(Ctx& ctx, const Tensor& self, const Tensor& other) {
    ctx.save_for_backward({self, other});
    return throwing::mm(self, other);
  }
  static Grads backward(Ctx& ctx, GradSpan grads) {
    Grads result(2);
    if (ctx.needs_input_grad(0)) {
      result[0] = throwing::mm(grads[0], throwing::transpose(ctx.saved(1)));
    }
    if (ctx.needs_input_grad(1)) {
      result[1] = throwing::mm(throwing::transpose(ctx.saved(0)), grads[0]);
    }
    return result;
  }
};

struct Bmm : Formula<Bmm> {
  static constexpr char kName[] = "dw::bmm";
  static Tensor forward(Ctx& ctx, const Tensor& self, const Tensor& other) {
    ctx.save_for_backward({self, other});
    return throwing::bmm(self, other);
  }
  static Grads backward(Ctx& ctx, GradSpan grads) {
    Grads result(2);
    if (ctx.needs_input_grad(0)) {
      result[0] = throwing::bmm(grads[0], throwing::transpose(ctx.saved(1)));
    }
    if (ctx.needs_input_grad(1)) {
      result[1] = throwing::bmm(throwing::transpose(ctx.saved(0)), grads[0]);
    }
    return result;
  }
};

// The sizes of a reduction's input with extents of 1 where it reduced.
Dims kept_sizes(const Tensor& self, std::optional<Ints> dim) {
  const uint64_t reduced =
      unwrap(outputs::reduced_dims("dw::sum", self.dims(), dim));
  Dims sizes(self.sizes().begin(), self.sizes().end());
  for (size_t d = 0; d < sizes.size(); ++d) {
    if ((reduced >> d & 1) != 0) sizes[d] = 1;
  }
  return sizes;
}

struct Sum : Formula<Sum> {
  static constexpr char kName[] = "dw::sum";
  static Tensor forward(Ctx& ctx, const Tensor& self, std::optional<Ints> dim,
                        bool keepdim) {
    ctx.put("sizes", self.sizes());
    ctx.put("kept", Ints(kept_sizes(self, dim)));
    return throwing::sum(self, dim, keepdim);
  }
  static Grads backward(Ctx& ctx, GradSpan grads) {
    return {throwing::expand(throwing::reshape(grads[0], ctx.get<Ints>("kept")),
                             ctx.get<Ints>("sizes"))};
  }
};

// Elements that are equal to the maximum share its gradient.
struct Amax : Formula<Amax> {
  static constexpr char kName[] = "dw::amax";
  static Tensor forward(Ctx& ctx, const Tensor& self, std::optional<Ints> dim,
                        bool keepdim) {
    Tensor out = throwing::amax(self, dim, keepdim);
    ctx.save_for_backward({self, out});
    ctx.put("kept", Ints(kept_sizes(self, dim)));
    ctx.put("dim", dim);
    return out;
  }
  static Grads backward(Ctx& ctx, GradSpan grads) {
    const Ints kept = ctx.get<Ints>("kept");
    const Tensor self = ctx.saved(0);
    const Tensor top = throwing::reshape(ctx.saved(1), kept);
    const Tensor winners = throwing::to(throwing::eq(self, top), self.dtype());
    const Tensor shares = throwing::sum(
        winners, ctx.get<std::optional<Ints>>("dim"), /*keepdim=*/true);
    return {winners * (throwing::reshape(grads[0], kept) / shares)};
  }
};

struct Gather : Formula<Gather> {
  static constexpr char kName[] = "dw::gather";
  static Tensor forward(Ctx& ctx, const Tensor& self, int64_t dim,
                        const Tensor& index) {
    ctx.save_for_backward({index});
    ctx.put("sizes", self.sizes());
    ctx.put("dim", dim);
    return throwing::gather(self, dim, index);
  }
  static Grads backward(Ctx& ctx, GradSpan grads) {
    const Tensor& g = grads[0];
    return {throwing::scatter_add(
                throwing::zeros(ctx.get<Ints>("sizes"), g.dtype(), g.device()),
                ctx.get<int64_t>("dim"), ctx.saved(0), g),
            Tensor()};
  }
};

struct ScatterAdd : Formula<ScatterAdd> {
  static constexpr char kName[] = "dw::scatter_add";
  static Tensor forward(Ctx& ctx, const Tensor& self, int64_t dim,
                        const Tensor& index, const Tensor& src) {
    ctx.save_for_backward({index});
    ctx.put("dim", dim);
    return throwing::scatter_add(self, dim, index, src);
  }
  static Grads backward(Ctx& ctx, GradSpan grads) {
    Grads result = {grads[0], Tensor(), Tensor()};
    if (ctx.needs_input_grad(2)) {
      result[2] =
          throwing::gather(grads[0], ctx.get<int64_t>("dim"), ctx.saved(0));
    }
    return result;
  }
};

struct IndexAdd : Formula<IndexAdd> {
  static constexpr char kName[] = "dw::index_add";
  static Tensor forward(Ctx& ctx, const Tensor& self, int64_t dim,
                        const Tensor& index, const Tensor& source) {
    Tensor out = throwing::index_add(self, dim, index, source);
    ctx.save_for_backward({index});
    ctx.put("dim", dim < 0 ? dim + std::max(self.dims(), 1) : dim);
    ctx.put("sizes", source.sizes());
    return out;
  }
  static Grads backward(Ctx& ctx, GradSpan grads) {
    Grads result = {grads[0], Tensor(), Tensor()};
    if (ctx.needs_input_grad(2)) {
      const auto dim = ctx.get<int64_t>("dim");
      const Ints sizes = ctx.get<Ints>("sizes");
      Dims shape(sizes.size(), 1);
      if (!shape.empty()) shape[static_cast<size_t>(dim)] = -1;
      const Tensor index =
          throwing::expand(throwing::view(ctx.saved(0), shape), sizes);
      result[2] = throwing::gather(grads[0], dim, index);
    }
    return result;
  }
};

struct Embedding : Formula<Embedding> {
  static constexpr char kName[] = "dw::embedding";
  static Tensor forward(Ctx& ctx, const Tensor& weight, const Tensor& indices) {
    ctx.save_for_backward({indices});
    ctx.put("sizes", weight.sizes());
    return throwing::embedding(weight, indices);
  }
  static Grads backward(Ctx& ctx, GradSpan grads) {
    const Tensor& g = grads[0];
    const Ints sizes = ctx.get<Ints>("sizes");
    const Tensor indices = ctx.saved(0);
    return {
        throwing::index_add(throwing::zeros(sizes, g.dtype(), g.device()), 0,
                            throwing::reshape(indices, {indices.count()}),
                            throwing::reshape(g, {indices.count(), sizes[1]})),
        Tensor()};
  }
};

// The loss is the mean over the targets that count.
struct NllLoss : Formula<NllLoss> {
  static constexpr char kName[] = "dw::nll_loss";
  static Tensor forward(Ctx& ctx, const Tensor& self, const Tensor& target,
                        int64_t ignore_index) {
    ctx.save_for_backward({target});
    ctx.put("sizes", self.sizes());
    ctx.put("ignore", ignore_index);
    return throwing::nll_loss(self, target, ignore_index);
  }
  static Grads backward(Ctx& ctx, GradSpan grads) {
    const Tensor& g = grads[0];
    const Tensor target = ctx.saved(0);
    const Tensor ignored =
        throwing::eq(target, Scalar(ctx.get<int64_t>("ignore")));
    const Tensor counted = 1.0 - throwing::to(ignored, g.dtype());
    const Tensor share = -(g / throwing::sum(counted)) * counted;
    const Tensor safe = throwing::masked_fill(target, ignored, 0);
    return {throwing::scatter_add(
                throwing::zeros(ctx.get<Ints>("sizes"), g.dtype(), g.device()),
                1, throwing::unsqueeze(safe, 1), throwing::unsqueeze(share, 1)),
            Tensor()};
  }
};

}  // namespace

DW_OPERATORS(lib) {
  DW_FORMULA(Mm, mm_);
  DW_FORMULA(Bmm, bmm_);
  DW_FORMULA(Sum, sum_);
  DW_FORMULA(Amax, amax_);
  DW_FORMULA(Gather, gather_);
  DW_FORMULA(ScatterAdd, scatter_add_);
  DW_FORMULA(IndexAdd, index_add_);
  DW_FORMULA(Embedding, embedding_);
  DW_FORMULA(NllLoss, nll_loss_);
}

}  // namespace distwrap::autograd
