// Shape rules of the operators `dw::...`: each function checks the arguments of
// an operator and makes its output, without values, on the device of its first
// tensor. A library of kernels calls the function and then fills the output, so
// that all devices, the meta device included, agree on shape and element type
// and refuse the same arguments. Outputs are row-major.
//
// `op` is the name for errors, for example "dw::add". Tensors of one operator
// have one element type: nothing is converted silently.
//
// Threads: any. Ownership: the caller owns the output.
//
//   StatusOr<Tensor> out = outputs::elementwise("dw::add", self, other);
//   if (!out.ok()) return out.status();
#ifndef DISTWRAP_OUTPUTS_H_
#define DISTWRAP_OUTPUTS_H_

#include "distwrap/arguments.h"
#include "distwrap/export.h"
#include "distwrap/scalar.h"
#include "distwrap/tensor.h"

#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>
#include <absl/types/span.h>

#include <cstdint>
#include <optional>
#include <vector>

namespace distwrap::outputs {

// The classes of element types that operators serve.
enum class Types : uint8_t {
  kAll,      // all of them, bool included
  kNumbers,  // integers and floats
  kFloats,   // f16, bf16, f32, f64
};

// kDtypeUnsupported where the type is not of the class.
DISTWRAP_EXPORT absl::Status check_type(absl::string_view op,
                                        const Tensor& self, Types types);
// `dim` from -dims to dims - 1 as a number from 0 on; kArgument otherwise. A
// tensor of no dimensions has dimension 0.
DISTWRAP_EXPORT absl::StatusOr<int> check_dim(absl::string_view op, int64_t dim,
                                              int dims);
// The sizes that tensors of these sizes have together: extents of 1 are
// repeated. kArgument where others differ.
DISTWRAP_EXPORT absl::StatusOr<Dims> broadcast(absl::string_view op,
                                               absl::Span<const int64_t> a,
                                               absl::Span<const int64_t> b);

// Numbers from `start` up to (or down to) `end`, which is left out.
// kArgument for a step of 0 or away from `end`, and for numbers that are not
// finite.
DISTWRAP_EXPORT absl::StatusOr<Tensor> arange(const Scalar& start,
                                              const Scalar& end,
                                              const Scalar& step, DType dtype,
                                              Device device);
// Floats of these sizes.
DISTWRAP_EXPORT absl::StatusOr<Tensor> random(absl::string_view op, Ints sizes,
                                              DType dtype, Device device);
// The sizes of `self`, with another type and device.
DISTWRAP_EXPORT absl::StatusOr<Tensor> to_copy(const Tensor& self, DType dtype,
                                               Device device);

// The factor `alpha` of an addition: whole for integers and bool.
DISTWRAP_EXPORT absl::Status check_factor(absl::string_view op,
                                          const Tensor& self,
                                          const Scalar& alpha);

// The check of a tensor that an operator writes: kViewWrite where two indices
// of `self` name one element.
DISTWRAP_EXPORT absl::Status check_written(absl::string_view op,
                                           const Tensor& self);
// `self` becomes self `op` other: the element types are equal, and `other` is
// broadcast to the sizes of `self`.
DISTWRAP_EXPORT absl::Status check_update(absl::string_view op,
                                          const Tensor& self,
                                          const Tensor& other, Types types);
// The view of `src` with the sizes of `self`; the element types may differ.
DISTWRAP_EXPORT absl::StatusOr<Tensor> copy_(const Tensor& self,
                                             const Tensor& src);
// All four tensors have the sizes and the element type of `self`, a float, and
// the first, third and fourth are written; step counts from 1.
DISTWRAP_EXPORT absl::Status adamw_(const Tensor& self, const Tensor& grad,
                                    const Tensor& mean, const Tensor& variance,
                                    int64_t step);

// Like `self`, in sizes and element type.
DISTWRAP_EXPORT absl::StatusOr<Tensor> elementwise(absl::string_view op,
                                                   const Tensor& self,
                                                   Types types);
// The output of two tensors, broadcast.
DISTWRAP_EXPORT absl::StatusOr<Tensor> elementwise(absl::string_view op,
                                                   const Tensor& self,
                                                   const Tensor& other,
                                                   Types types);
// As elementwise of two; the result is bool.
DISTWRAP_EXPORT absl::StatusOr<Tensor> comparison(absl::string_view op,
                                                  const Tensor& self,
                                                  const Tensor& other,
                                                  Types types);
// The output of a bool condition and two tensors, all broadcast.
DISTWRAP_EXPORT absl::StatusOr<Tensor> where(const Tensor& condition,
                                             const Tensor& self,
                                             const Tensor& other);

// The gradient of an operator whose result is like its input: `grad` and
// `saved` have equal sizes and element types.
DISTWRAP_EXPORT absl::StatusOr<Tensor> gradient(absl::string_view op,
                                                const Tensor& grad,
                                                const Tensor& saved);

// The element type of a sum: integers and bool are summed in i64 (u64 in u64),
// floats keep their type.
DISTWRAP_EXPORT DType sum_type(DType dtype);
// The dimensions that a reduction takes away: bit d for dimension d; all
// without `dims`. kArgument for one out of range or named twice.
DISTWRAP_EXPORT absl::StatusOr<uint64_t> reduced_dims(
    absl::string_view op, int dims,
    std::optional<absl::Span<const int64_t>> reduced);
// A reduction over these dimensions; with `keep` they stay as extents of 1.
DISTWRAP_EXPORT absl::StatusOr<Tensor> reduction(absl::string_view op,
                                                 const Tensor& self,
                                                 uint64_t reduced, bool keep,
                                                 DType dtype);

// A sum over these dimensions, in sum_type.
DISTWRAP_EXPORT absl::StatusOr<Tensor> sum(
    const Tensor& self, std::optional<absl::Span<const int64_t>> dims,
    bool keep);
// kArgument where a maximum of no elements would be taken.
DISTWRAP_EXPORT absl::StatusOr<Tensor> amax(
    const Tensor& self, std::optional<absl::Span<const int64_t>> dims,
    bool keep);

// Tensors that differ in `dim` only.
DISTWRAP_EXPORT absl::StatusOr<Tensor> cat(absl::Span<const Tensor> tensors,
                                           int64_t dim);
// `amounts` has two numbers a dimension, from the last dimension on: elements
// before and after; negative ones cut off.
DISTWRAP_EXPORT absl::StatusOr<Tensor> pad(const Tensor& self,
                                           absl::Span<const int64_t> amounts);
// The part of a dimension of `extent` elements that slice names: bounds below 0
// count from the end, bounds out of range are moved to the nearest end.
// kArgument for a step below 1.
struct Range {
  int64_t start = 0, step = 1, count = 0;
};
DISTWRAP_EXPORT absl::StatusOr<Range> slice_range(absl::string_view op,
                                                  int64_t extent, int64_t start,
                                                  int64_t end, int64_t step);
// Like `self`; `src` has the sizes of the slice, which is returned, too.
struct Slice {
  Tensor out;
  int dim = 0;
  int64_t start = 0, step = 1;
};
DISTWRAP_EXPORT absl::StatusOr<Slice> slice_scatter(const Tensor& self,
                                                    const Tensor& src,
                                                    int64_t dim, int64_t start,
                                                    int64_t end, int64_t step);
// A row-major tensor of base_size; `grad` has these sizes, whose strides and
// offset count elements of the result and stay inside it.
DISTWRAP_EXPORT absl::StatusOr<Tensor> as_strided_backward(
    const Tensor& grad, Ints base_size, Ints size, Ints stride, int64_t offset);
// (n, k) by (k, m), and the same for batches of equal size.
DISTWRAP_EXPORT absl::StatusOr<Tensor> mm(const Tensor& self,
                                          const Tensor& other);
DISTWRAP_EXPORT absl::StatusOr<Tensor> bmm(const Tensor& self,
                                           const Tensor& other);
// The error of extents that a library of products cannot count.
DISTWRAP_EXPORT absl::Status too_large(absl::string_view op, const Tensor& self,
                                       const Tensor& other);
// (..., rows of `weight`'s second extent) for i64 or i32 indices.
DISTWRAP_EXPORT absl::StatusOr<Tensor> embedding(const Tensor& weight,
                                                 const Tensor& indices);
// The values of `self` along `dim` at the indices; other extents are equal or
// smaller.
DISTWRAP_EXPORT absl::StatusOr<Tensor> gather(const Tensor& self, int64_t dim,
                                              const Tensor& index);
// Like `self`; index is 1-d, and source has its length along `dim`.
DISTWRAP_EXPORT absl::StatusOr<Tensor> index_add(const Tensor& self,
                                                 int64_t dim,
                                                 const Tensor& index,
                                                 const Tensor& source);
// Like `self`; index and source have equal sizes.
DISTWRAP_EXPORT absl::StatusOr<Tensor> scatter_add(const Tensor& self,
                                                   int64_t dim,
                                                   const Tensor& index,
                                                   const Tensor& source);
// (N, C) and N targets give one number.
DISTWRAP_EXPORT absl::StatusOr<Tensor> nll_loss(const Tensor& log_probs,
                                                const Tensor& target);

// Like `self`, a float with a dimension `dim`.
DISTWRAP_EXPORT absl::StatusOr<Tensor> softmax(absl::string_view op,
                                               const Tensor& self, int64_t dim);
DISTWRAP_EXPORT absl::StatusOr<Tensor> softmax_backward(absl::string_view op,
                                                        const Tensor& grad,
                                                        const Tensor& output,
                                                        int64_t dim);
// Like `self`, a float; `weight` and `bias`, where given, have the length of
// its last dimension.
DISTWRAP_EXPORT absl::StatusOr<Tensor> norm(absl::string_view op,
                                            const Tensor& self,
                                            const Tensor* weight,
                                            const Tensor* bias);
// The gradients of self, weight and bias; the last two have the length of the
// last dimension, also without a weight.
DISTWRAP_EXPORT absl::StatusOr<ThreeTensors> norm_backward(
    absl::string_view op, const Tensor& grad, const Tensor& self,
    const Tensor* weight);
// Like `self`, a float; p from 0 to 1.
DISTWRAP_EXPORT absl::StatusOr<Tensor> dropout(const Tensor& self, double p);
// query (..., L, D), key (..., S, D) and value (..., S, E), with equal leading
// sizes, give output (..., L, E) and logsumexp (..., L), which is f32 for
// 16-bit floats. A mask is bool or of query's type and is broadcast to
// (..., L, S).
DISTWRAP_EXPORT absl::StatusOr<TwoTensors> attention_forward(
    const Tensor& query, const Tensor& key, const Tensor& value,
    const Tensor* mask);
// The gradients of query, key and value; `grad` is like `output`.
DISTWRAP_EXPORT absl::StatusOr<ThreeTensors> attention_backward(
    const Tensor& grad, const Tensor& query, const Tensor& key,
    const Tensor& value, const Tensor* mask, const Tensor& output,
    const Tensor& logsumexp);

}  // namespace distwrap::outputs

#endif  // DISTWRAP_OUTPUTS_H_
