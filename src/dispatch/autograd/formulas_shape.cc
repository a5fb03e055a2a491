// Gradients of copies, views and joins.
#include "dispatch/autograd/formulas.h"
#include "distwrap/outputs.h"

#include <utility>

namespace distwrap::autograd {
namespace {

using namespace throwing;  // NOLINT(google-build-using-namespace)

struct Clone : Formula<Clone> {
  static constexpr char kName[] = "dw::clone";
  static Tensor forward(Ctx& /*ctx*/, const Tensor& self) {
    return throwing::clone(self);
  }
  static Grads backward(Ctx& /*ctx*/, GradSpan grads) { return {grads[0]}; }
};

struct ToCopy : Formula<ToCopy> {
  static constexpr char kName[] = "dw::to_copy";
  static Tensor forward(Ctx& ctx, const Tensor& self, DType dtype,
                        Device device) {
    ctx.put("dtype", self.dtype());
    ctx.put("device", self.device());
    return throwing::to_copy(self, dtype, device);
  }
  static Grads backward(Ctx& ctx, GradSpan grads) {
    return {throwing::to_copy(grads[0], ctx.get<DType>("dtype"),
                              ctx.get<Device>("device"))};
  }
};

struct CopyInPlace : Formula<CopyInPlace> {
  static constexpr char kName[] = "dw::copy_";
  static constexpr bool kInPlace = true;
  static void forward(Ctx& ctx, const Tensor& self, const Tensor& src) {
    ctx.put("sizes", src.sizes());
    ctx.put("dtype", src.dtype());
    ctx.put("device", src.device());
    throwing::copy_(self, src);
  }
  static Grads backward(Ctx& ctx, GradSpan grads) {
    Grads result(2);
    if (ctx.needs_input_grad(1)) {
      const Tensor g = sum_to(grads[0], ctx.get<Ints>("sizes"));
      result[1] = throwing::to(throwing::to(g, ctx.get<DType>("dtype")),
                               ctx.get<Device>("device"));
    }
    return result;
  }
};

struct FillInPlace : Formula<FillInPlace> {
  static constexpr char kName[] = "dw::fill_";
  static constexpr bool kInPlace = true;
  static void forward(Ctx& /*ctx*/, const Tensor& self, const Scalar& value) {
    throwing::fill_(self, value);
  }
  static Grads backward(Ctx& /*ctx*/, GradSpan /*grads*/) { return {Tensor()}; }
};

// Notes the sizes of the input under "sizes".
void put_sizes(Ctx& ctx, const Tensor& self) { ctx.put("sizes", self.sizes()); }

Tensor zeros_of_input(const Ctx& ctx, const Tensor& grad) {
  return throwing::zeros(ctx.get<Ints>("sizes"), grad.dtype(), grad.device());
}

struct AsStrided : Formula<AsStrided> {
  static constexpr char kName[] = "dw::as_strided";
  static Tensor forward(Ctx& ctx, const Tensor& self, Ints size, Ints stride,
                        int64_t offset) {
    if (ctx.recording() && !self.is_contiguous()) {
      throw StatusError(make_error(
          {.reason = Reason::kArgument,
           .what = "as_strided with a gradient needs a row-major tensor",
           .op = kName,
           .actual = self.text(),
           .next_step = "call contiguous() first"}));
    }
    put_sizes(ctx, self);
    ctx.put("size", size);
    ctx.put("stride", stride);
    ctx.put("offset", offset - self.storage_offset());
    return throwing::as_strided(self, size, stride, offset);
  }
  static Grads backward(Ctx& ctx, GradSpan grads) {
    return {throwing::as_strided_backward(
        grads[0], ctx.get<Ints>("sizes"), ctx.get<Ints>("size"),
        ctx.get<Ints>("stride"), ctx.get<int64_t>("offset"))};
  }
};

struct AsStridedBackward : Formula<AsStridedBackward> {
  static constexpr char kName[] = "dw::as_strided_backward";
  static Tensor forward(Ctx& ctx, const Tensor& grad, Ints base_size, Ints size,
                        Ints stride, int64_t offset) {
    ctx.put("size", size);
    ctx.put("stride", stride);
    ctx.put("offset", offset);
    return throwing::as_strided_backward(grad, base_size, size, stride, offset);
  }
  static Grads backward(Ctx& ctx, GradSpan grads) {
    const Tensor g = throwing::contiguous(grads[0]);
    return {
        throwing::as_strided(g, ctx.get<Ints>("size"), ctx.get<Ints>("stride"),
                             g.storage_offset() + ctx.get<int64_t>("offset"))};
  }
};

struct ViewFormula : Formula<ViewFormula> {
  static constexpr char kName[] = "dw::view";
  static Tensor forward(Ctx& ctx, const Tensor& self, Ints size) {
    put_sizes(ctx, self);
    return throwing::view(self, size);
  }
  static Grads backward(Ctx& ctx, GradSpan grads) {
    return {throwing::reshape(grads[0], ctx.get<Ints>("sizes"))};
  }
};

struct Permute : Formula<Permute> {
  static constexpr char kName[] = "dw::permute";
  static Tensor forward(Ctx& ctx, const Tensor& self, Ints dims) {
    Tensor out = throwing::permute(self, dims);
    Dims back(dims.size());
    for (size_t d = 0; d < dims.size(); ++d) {
      const int64_t from = dims[d] < 0 ? dims[d] + self.dims() : dims[d];
      back[static_cast<size_t>(from)] = static_cast<int64_t>(d);
    }
    ctx.put("back", Ints(back));
    return out;
  }
  static Grads backward(Ctx& ctx, GradSpan grads) {
    return {throwing::permute(grads[0], ctx.get<Ints>("back"))};
  }
};

struct Expand : Formula<Expand> {
  static constexpr char kName[] = "dw::expand";
  static Tensor forward(Ctx& ctx, const Tensor& self, Ints size) {
    put_sizes(ctx, self);
    return throwing::expand(self, size);
  }
  static Grads backward(Ctx& ctx, GradSpan grads) {
    return {sum_to(grads[0], ctx.get<Ints>("sizes"))};
  }
};

struct Squeeze : Formula<Squeeze> {
  static constexpr char kName[] = "dw::squeeze";
  static Tensor forward(Ctx& ctx, const Tensor& self, int64_t dim) {
    put_sizes(ctx, self);
    return throwing::squeeze(self, dim);
  }
  static Grads backward(Ctx& ctx, GradSpan grads) {
    return {throwing::reshape(grads[0], ctx.get<Ints>("sizes"))};
  }
};

struct Unsqueeze : Formula<Unsqueeze> {
  static constexpr char kName[] = "dw::unsqueeze";
  static Tensor forward(Ctx& ctx, const Tensor& self, int64_t dim) {
    put_sizes(ctx, self);
    return throwing::unsqueeze(self, dim);
  }
  static Grads backward(Ctx& ctx, GradSpan grads) {
    return {throwing::reshape(grads[0], ctx.get<Ints>("sizes"))};
  }
};

struct Select : Formula<Select> {
  static constexpr char kName[] = "dw::select";
  static Tensor forward(Ctx& ctx, const Tensor& self, int64_t dim,
                        int64_t index) {
    Tensor out = throwing::select(self, dim, index);
    dim = dim < 0 ? dim + self.dims() : dim;
    put_sizes(ctx, self);
    ctx.put("dim", dim);
    ctx.put("index",
            index < 0 ? index + self.size(static_cast<int>(dim)) : index);
    return out;
  }
  static Grads backward(Ctx& ctx, GradSpan grads) {
    const auto dim = ctx.get<int64_t>("dim"), index = ctx.get<int64_t>("index");
    return {throwing::slice_scatter(zeros_of_input(ctx, grads[0]),
                                    throwing::unsqueeze(grads[0], dim), dim,
                                    index, index + 1)};
  }
};

struct Slice : Formula<Slice> {
  static constexpr char kName[] = "dw::slice";
  static Tensor forward(Ctx& ctx, const Tensor& self, int64_t dim,
                        int64_t start, int64_t end, int64_t step) {
    put_sizes(ctx, self);
    ctx.put("dim", dim);
    ctx.put("start", start);
    ctx.put("end", end);
    ctx.put("step", step);
    return throwing::slice(self, dim, start, end, step);
  }
  static Grads backward(Ctx& ctx, GradSpan grads) {
    return {throwing::slice_scatter(
        zeros_of_input(ctx, grads[0]), grads[0], ctx.get<int64_t>("dim"),
        ctx.get<int64_t>("start"), ctx.get<int64_t>("end"),
        ctx.get<int64_t>("step"))};
  }
};

struct Split : Formula<Split> {
  static constexpr char kName[] = "dw::split";
  static std::vector<Tensor> forward(Ctx& ctx, const Tensor& self, Ints sizes,
                                     int64_t dim) {
    ctx.put("dim", dim);
    return throwing::split(self, sizes, dim);
  }
  static Grads backward(Ctx& ctx, GradSpan grads) {
    return {throwing::cat(grads, ctx.get<int64_t>("dim"))};
  }
};

struct Cat : Formula<Cat> {
  static constexpr char kName[] = "dw::cat";
  static Tensor forward(Ctx& ctx, TensorList tensors, int64_t dim) {
    Tensor out = throwing::cat(tensors, dim);
    dim = dim < 0 ? dim + out.dims() : dim;
    Dims lengths;
    for (const Tensor& one : tensors) {
      lengths.push_back(one.size(static_cast<int>(dim)));
    }
    ctx.put("dim", dim);
    ctx.put("lengths", Ints(lengths));
    return out;
  }
  static Grads backward(Ctx& ctx, GradSpan grads) {
    std::vector<Tensor> parts = throwing::split(
        grads[0], ctx.get<Ints>("lengths"), ctx.get<int64_t>("dim"));
    return Grads(parts.begin(), parts.end());
  }
};

struct Pad : Formula<Pad> {
  static constexpr char kName[] = "dw::pad";
  static Tensor forward(Ctx& ctx, const Tensor& self, Ints amounts,
                        const Scalar& value) {
    Dims back(amounts.begin(), amounts.end());
    for (int64_t& amount : back) amount = -amount;
    ctx.put("back", Ints(back));
    return throwing::pad(self, amounts, value);
  }
  static Grads backward(Ctx& ctx, GradSpan grads) {
    return {throwing::pad(grads[0], ctx.get<Ints>("back"))};
  }
};

struct SliceScatter : Formula<SliceScatter> {
  static constexpr char kName[] = "dw::slice_scatter";
  static Tensor forward(Ctx& ctx, const Tensor& self, const Tensor& src,
                        int64_t dim, int64_t start, int64_t end, int64_t step) {
    put_sizes(ctx, src);
    ctx.put("dim", dim);
    ctx.put("start", start);
    ctx.put("end", end);
    ctx.put("step", step);
    return throwing::slice_scatter(self, src, dim, start, end, step);
  }
  static Grads backward(Ctx& ctx, GradSpan grads) {
    const auto dim = ctx.get<int64_t>("dim"), start = ctx.get<int64_t>("start"),
               end = ctx.get<int64_t>("end"), step = ctx.get<int64_t>("step");
    return {throwing::slice_scatter(grads[0], zeros_of_input(ctx, grads[0]),
                                    dim, start, end, step),
            throwing::slice(grads[0], dim, start, end, step)};
  }
};

}  // namespace

DW_OPERATORS(lib) {
  DW_FORMULA(Clone, clone_);
  DW_FORMULA(ToCopy, to_copy_);
  DW_FORMULA(CopyInPlace, copy__);
  DW_FORMULA(FillInPlace, fill__);
  DW_FORMULA(AsStrided, as_strided_);
  DW_FORMULA(AsStridedBackward, as_strided_backward_);
  DW_FORMULA(ViewFormula, view_);
  DW_FORMULA(Permute, permute_);
  DW_FORMULA(Expand, expand_);
  DW_FORMULA(Squeeze, squeeze_);
  DW_FORMULA(Unsqueeze, unsqueeze_);
  DW_FORMULA(Select, select_);
  DW_FORMULA(Slice, slice_);
  DW_FORMULA(Split, split_);
  DW_FORMULA(Cat, cat_);
  DW_FORMULA(Pad, pad_);
  DW_FORMULA(SliceScatter, slice_scatter_);
  // The result has no history.
  lib.impl("dw::detach", dispatch::kAutograd, dispatch::fallthrough());
}

}  // namespace distwrap::autograd
