// Shape rules of products, of operators with indices and of fused ones.
#include "dispatch/fail.h"
#include "dispatch/output_checks.h"
#include "distwrap/outputs.h"

#include <absl/strings/str_cat.h>

#include <utility>

namespace distwrap::outputs {
namespace {

using dispatch::bad_argument;
using dispatch::check_alike;
using dispatch::check_defined;
using dispatch::check_dims;
using dispatch::check_index;
using dispatch::check_sizes;
using dispatch::dims_text;

absl::Status check_inner(absl::string_view op, const Tensor& self,
                         const Tensor& other) {
  if (self.size(-1) == other.size(-2)) return absl::OkStatus();
  return bad_argument(
      op, "the inner extents differ",
      absl::StrCat("argument 'other' with ", self.size(-1), " rows"),
      absl::StrCat(dims_text(self.sizes()), " by ", dims_text(other.sizes())));
}

// The checks of an operator that moves elements along `dim` by an index.
absl::StatusOr<int> check_indexed(absl::string_view op, const Tensor& self,
                                  int64_t dim, const Tensor& index) {
  DW_CHECK_OK(check_index(op, self, "index", index));
  return check_dim(op, dim, self.dims());
}

// index has the dimensions of `self` and, except along `dim`, at most its
// extents.
absl::Status check_within(absl::string_view op, const Tensor& self, int dim,
                          const Tensor& index) {
  DW_CHECK_OK(check_dims(op, "index", index, self.dims()));
  for (int d = 0; d < self.dims(); ++d) {
    if (d == dim || index.size(d) <= self.size(d)) continue;
    return bad_argument(op, "argument 'index' is larger than the tensor",
                        absl::StrCat("at most ", dims_text(self.sizes()),
                                     ", except in dimension ", dim),
                        dims_text(index.sizes()));
  }
  return absl::OkStatus();
}

absl::Status check_length(absl::string_view op, absl::string_view name,
                          const Tensor& self, const Tensor& tensor) {
  DW_CHECK_OK(check_alike(op, self, name, tensor));
  return check_sizes(op, name, tensor, {self.size(-1)});
}

// The sizes of a tensor without its last `last` dimensions.
absl::Span<const int64_t> leading(const Tensor& tensor, int last) {
  return tensor.sizes().first(static_cast<size_t>(tensor.dims() - last));
}

absl::Status check_attention(absl::string_view op, const Tensor& query,
                             const Tensor& key, const Tensor& value,
                             const Tensor* mask) {
  DW_CHECK_OK(check_type(op, query, Types::kFloats));
  DW_CHECK_OK(check_alike(op, query, "key", key));
  DW_CHECK_OK(check_alike(op, query, "value", value));
  const auto misfit = [&](absl::string_view expected) {
    return bad_argument(
        op, "query, key and value do not belong together",
        std::string(expected),
        absl::StrCat(dims_text(query.sizes()), ", ", dims_text(key.sizes()),
                     " and ", dims_text(value.sizes())));
  };
  if (query.dims() < 2 || key.dims() != query.dims() ||
      value.dims() != query.dims()) {
    return misfit("equally many dimensions, 2 or more");
  }
  if (leading(query, 2) != leading(key, 2) ||
      leading(query, 2) != leading(value, 2)) {
    return misfit("equal leading sizes");
  }
  if (query.size(-1) != key.size(-1) || key.size(-2) != value.size(-2)) {
    return misfit("(..., L, D), (..., S, D) and (..., S, E)");
  }
  if (mask == nullptr) return absl::OkStatus();
  DW_CHECK_OK(check_defined(op, "mask", *mask));
  if (mask->dtype() != DType::kBool) {
    DW_CHECK_OK(check_alike(op, query, "mask", *mask));
  }
  DW_CHECK_OK(dispatch::check_device(op, query, "mask", *mask));
  Dims scores(query.sizes().begin(), query.sizes().end());
  scores.back() = key.size(-2);
  absl::StatusOr<Dims> sizes = broadcast(op, scores, mask->sizes());
  if (!sizes.ok()) return std::move(sizes).status();
  if (*sizes == scores) return absl::OkStatus();
  return bad_argument(
      op, "argument 'mask' is larger than the scores",
      absl::StrCat("sizes that broadcast to ", dims_text(scores)),
      dims_text(mask->sizes()));
}

}  // namespace

absl::StatusOr<Tensor> mm(const Tensor& self, const Tensor& other) {
  constexpr absl::string_view kOp = "dw::mm";
  DW_CHECK_OK(check_type(kOp, self, Types::kNumbers));
  DW_CHECK_OK(check_alike(kOp, self, "other", other));
  DW_CHECK_OK(check_dims(kOp, "self", self, 2));
  DW_CHECK_OK(check_dims(kOp, "other", other, 2));
  DW_CHECK_OK(check_inner(kOp, self, other));
  return Tensor::empty({self.size(0), other.size(1)}, self.dtype(),
                       self.device());
}

absl::StatusOr<Tensor> bmm(const Tensor& self, const Tensor& other) {
  constexpr absl::string_view kOp = "dw::bmm";
  DW_CHECK_OK(check_type(kOp, self, Types::kNumbers));
  DW_CHECK_OK(check_alike(kOp, self, "other", other));
  DW_CHECK_OK(check_dims(kOp, "self", self, 3));
  DW_CHECK_OK(check_dims(kOp, "other", other, 3));
  if (self.size(0) != other.size(0)) {
    return bad_argument(kOp, "the batches differ in size",
                        absl::StrCat(self.size(0), " matrices"),
                        absl::StrCat(other.size(0), " matrices"));
  }
  DW_CHECK_OK(check_inner(kOp, self, other));
  return Tensor::empty({self.size(0), self.size(1), other.size(2)},
                       self.dtype(), self.device());
}

absl::Status too_large(absl::string_view op, const Tensor& self,
                       const Tensor& other) {
  return bad_argument(
      op, "a matrix is too large for the product",
      "extents and strides below 2^31",
      absl::StrCat(dims_text(self.sizes()), " by ", dims_text(other.sizes())));
}

absl::StatusOr<Tensor> embedding(const Tensor& weight, const Tensor& indices) {
  constexpr absl::string_view kOp = "dw::embedding";
  DW_CHECK_OK(check_index(kOp, weight, "indices", indices));
  DW_CHECK_OK(check_dims(kOp, "weight", weight, 2));
  Dims sizes(indices.sizes().begin(), indices.sizes().end());
  sizes.push_back(weight.size(1));
  return Tensor::empty(sizes, weight.dtype(), weight.device());
}

absl::StatusOr<Tensor> gather(const Tensor& self, int64_t dim,
                              const Tensor& index) {
  constexpr absl::string_view kOp = "dw::gather";
  absl::StatusOr<int> at = check_indexed(kOp, self, dim, index);
  if (!at.ok()) return std::move(at).status();
  DW_CHECK_OK(check_within(kOp, self, *at, index));
  return Tensor::empty(index.sizes(), self.dtype(), self.device());
}

absl::StatusOr<Tensor> index_add(const Tensor& self, int64_t dim,
                                 const Tensor& index, const Tensor& source) {
  constexpr absl::string_view kOp = "dw::index_add";
  absl::StatusOr<int> at = check_indexed(kOp, self, dim, index);
  if (!at.ok()) return std::move(at).status();
  DW_CHECK_OK(check_type(kOp, self, Types::kNumbers));
  DW_CHECK_OK(check_alike(kOp, self, "source", source));
  DW_CHECK_OK(check_dims(kOp, "index", index, 1));
  if (self.dims() == 0) {
    return bad_argument(kOp, "the tensor has no dimension to add along",
                        "one dimension or more", self.text());
  }
  Dims sizes(self.sizes().begin(), self.sizes().end());
  sizes[static_cast<size_t>(*at)] = index.size(0);
  DW_CHECK_OK(check_sizes(kOp, "source", source, sizes));
  return Tensor::empty(self.sizes(), self.dtype(), self.device());
}

absl::StatusOr<Tensor> scatter_add(const Tensor& self, int64_t dim,
                                   const Tensor& index, const Tensor& source) {
  constexpr absl::string_view kOp = "dw::scatter_add";
  absl::StatusOr<int> at = check_indexed(kOp, self, dim, index);
  if (!at.ok()) return std::move(at).status();
  DW_CHECK_OK(check_type(kOp, self, Types::kNumbers));
  DW_CHECK_OK(check_alike(kOp, self, "src", source));
  DW_CHECK_OK(check_within(kOp, self, *at, index));
  DW_CHECK_OK(check_sizes(kOp, "src", source, index.sizes()));
  return Tensor::empty(self.sizes(), self.dtype(), self.device());
}

absl::StatusOr<Tensor> nll_loss(const Tensor& log_probs, const Tensor& target) {
  constexpr absl::string_view kOp = "dw::nll_loss";
  DW_CHECK_OK(check_type(kOp, log_probs, Types::kFloats));
  DW_CHECK_OK(check_index(kOp, log_probs, "target", target));
  DW_CHECK_OK(check_dims(kOp, "self", log_probs, 2));
  DW_CHECK_OK(check_sizes(kOp, "target", target, {log_probs.size(0)}));
  return Tensor::empty({}, log_probs.dtype(), log_probs.device());
}

absl::StatusOr<Tensor> softmax(absl::string_view op, const Tensor& self,
                               int64_t dim) {
  DW_CHECK_OK(check_type(op, self, Types::kFloats));
  absl::StatusOr<int> at = check_dim(op, dim, self.dims());
  if (!at.ok()) return std::move(at).status();
  return Tensor::empty(self.sizes(), self.dtype(), self.device());
}

absl::StatusOr<Tensor> softmax_backward(absl::string_view op,
                                        const Tensor& grad,
                                        const Tensor& output, int64_t dim) {
  DW_CHECK_OK(check_alike(op, grad, "output", output));
  DW_CHECK_OK(check_sizes(op, "output", output, grad.sizes()));
  return softmax(op, grad, dim);
}

absl::StatusOr<Tensor> norm(absl::string_view op, const Tensor& self,
                            const Tensor* weight, const Tensor* bias) {
  DW_CHECK_OK(check_type(op, self, Types::kFloats));
  if (self.dims() == 0) {
    return bad_argument(op, "the tensor has no last dimension",
                        "one dimension or more", self.text());
  }
  if (weight != nullptr) {
    DW_CHECK_OK(check_length(op, "weight", self, *weight));
  }
  if (bias != nullptr) DW_CHECK_OK(check_length(op, "bias", self, *bias));
  return Tensor::empty(self.sizes(), self.dtype(), self.device());
}

absl::StatusOr<ThreeTensors> norm_backward(absl::string_view op,
                                           const Tensor& grad,
                                           const Tensor& self,
                                           const Tensor* weight) {
  absl::StatusOr<Tensor> input = norm(op, self, weight, nullptr);
  if (!input.ok()) return std::move(input).status();
  DW_CHECK_OK(check_alike(op, self, "grad", grad));
  DW_CHECK_OK(check_sizes(op, "grad", grad, self.sizes()));
  absl::StatusOr<Tensor> scale =
      Tensor::empty({self.size(-1)}, self.dtype(), self.device());
  if (!scale.ok()) return std::move(scale).status();
  absl::StatusOr<Tensor> bias =
      Tensor::empty({self.size(-1)}, self.dtype(), self.device());
  if (!bias.ok()) return std::move(bias).status();
  return ThreeTensors(*std::move(input), *std::move(scale), *std::move(bias));
}

absl::StatusOr<Tensor> dropout(const Tensor& self, double p) {
  constexpr absl::string_view kOp = "dw::dropout";
  DW_CHECK_OK(check_type(kOp, self, Types::kFloats));
  if (!(p >= 0 && p <= 1)) {
    return bad_argument(kOp, "argument 'p' is no probability", "from 0 to 1",
                        absl::StrCat(p));
  }
  return Tensor::empty(self.sizes(), self.dtype(), self.device());
}

absl::StatusOr<TwoTensors> attention_forward(const Tensor& query,
                                             const Tensor& key,
                                             const Tensor& value,
                                             const Tensor* mask) {
  constexpr absl::string_view kOp = "dw::attention_forward";
  DW_CHECK_OK(check_attention(kOp, query, key, value, mask));
  Dims sizes(query.sizes().begin(), query.sizes().end());
  sizes.back() = value.size(-1);
  absl::StatusOr<Tensor> output =
      Tensor::empty(sizes, query.dtype(), query.device());
  if (!output.ok()) return std::move(output).status();
  sizes.pop_back();
  absl::StatusOr<Tensor> logsumexp = Tensor::empty(
      sizes, query.dtype() == DType::kF64 ? DType::kF64 : DType::kF32,
      query.device());
  if (!logsumexp.ok()) return std::move(logsumexp).status();
  return TwoTensors(*std::move(output), *std::move(logsumexp));
}

absl::StatusOr<ThreeTensors> attention_backward(
    const Tensor& grad, const Tensor& query, const Tensor& key,
    const Tensor& value, const Tensor* mask, const Tensor& output,
    const Tensor& logsumexp) {
  constexpr absl::string_view kOp = "dw::attention_backward";
  DW_CHECK_OK(check_attention(kOp, query, key, value, mask));
  Dims sizes(query.sizes().begin(), query.sizes().end());
  sizes.back() = value.size(-1);
  for (const auto& [name, tensor] :
       {std::pair<absl::string_view, const Tensor*>{"grad", &grad},
        std::pair<absl::string_view, const Tensor*>{"output", &output}}) {
    DW_CHECK_OK(check_alike(kOp, query, name, *tensor));
    DW_CHECK_OK(check_sizes(kOp, name, *tensor, sizes));
  }
  sizes.pop_back();
  DW_CHECK_OK(check_defined(kOp, "logsumexp", logsumexp));
  DW_CHECK_OK(check_sizes(kOp, "logsumexp", logsumexp, sizes));
  const DType type = query.dtype() == DType::kF64 ? DType::kF64 : DType::kF32;
  if (logsumexp.dtype() != type) {
    return dispatch::bad_type(kOp, "logsumexp", logsumexp,
                              std::string(dtype_name(type)));
  }
  Tensor grads[3];
  const Tensor* const inputs[] = {&query, &key, &value};
  for (int i = 0; i < 3; ++i) {
    absl::StatusOr<Tensor> out = Tensor::empty(
        inputs[i]->sizes(), inputs[i]->dtype(), inputs[i]->device());
    if (!out.ok()) return std::move(out).status();
    grads[i] = *std::move(out);
  }
  return ThreeTensors(std::move(grads[0]), std::move(grads[1]),
                      std::move(grads[2]));
}

}  // namespace distwrap::outputs
