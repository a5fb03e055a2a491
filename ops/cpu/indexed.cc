// Operators that move elements by an index: gather, index_add, scatter_add,
// embedding; and as_strided_backward, which adds by strides. All indices are
// checked before anything is written. Sums of 16-bit floats are rounded once.
#include "cpu/convert.h"
#include "cpu/index.h"
#include "cpu/loops.h"
#include "cpu/row_set.h"
#include "cpu/strided_copy.h"
#include "distwrap/arguments.h"
#include "distwrap/outputs.h"
#include "distwrap/registration.h"

#include <cstring>
#include <utility>

namespace distwrap::cpu {
namespace {

// A row-major copy in the type in which sums are computed.
absl::StatusOr<Tensor> wide_copy(const Tensor& tensor) {
  absl::StatusOr<Tensor> wide =
      Tensor::empty(tensor.sizes(), compute_type(tensor.dtype()));
  if (wide.ok()) copy_converted(*wide, tensor);
  return wide;
}

// `tensor` itself, or a row-major copy in the type in which sums are computed.
absl::StatusOr<Tensor> wide_dense(const Tensor& tensor) {
  if (tensor.is_contiguous() && !is_half(tensor.dtype())) return tensor;
  return wide_copy(tensor);
}

// Adds `n` contiguous elements.
class Adder {
 public:
  explicit Adder(DType dtype)
      : loop_(loops().find(Op::kAdd, dtype)), one_(Number::of(1, dtype)) {}
  void operator()(char* to, const char* from, int64_t n) const {
    void* const p[] = {to, to, const_cast<char*>(from)};
    loop_(p, n, &one_);
  }

 private:
  Loop loop_;
  Number one_;
};

// The product of the extents from dimension `first` up to `end`.
int64_t extent_of(const Tensor& tensor, int first, int end) {
  int64_t extent = 1;
  for (int d = first; d < end; ++d) extent *= tensor.size(d);
  return extent;
}

// The places of an index's elements in a tensor: strides of the tensor over the
// sizes of the index, without dimension `dim`.
RowSet places_of(const Tensor& index, const Tensor& tensor, int dim) {
  Dims strides(tensor.strides().begin(), tensor.strides().end());
  if (!strides.empty()) strides[static_cast<size_t>(dim)] = 0;
  return RowSet(index.sizes(), strides);
}

int64_t stride_of(const Tensor& tensor, int dim) {
  return tensor.dims() == 0 ? 1 : tensor.stride(dim);
}

int64_t size_of(const Tensor& tensor, int dim) {
  return tensor.dims() == 0 ? 1 : tensor.size(dim);
}

}  // namespace

absl::StatusOr<Tensor> gather(const Tensor& self, int64_t dim,
                              const Tensor& index) {
  absl::StatusOr<Tensor> out = outputs::gather(self, dim, index);
  if (!out.ok()) return out;
  const int at = *outputs::check_dim("dw::gather", dim, self.dims());
  absl::StatusOr<std::vector<int64_t>> indices =
      indices_of("dw::gather", "index", index, size_of(self, at));
  if (!indices.ok()) return std::move(indices).status();
  const RowSet places = places_of(index, self, at);
  const int64_t size = dtype_size(self.dtype()), step = stride_of(self, at);
  const auto* const from = static_cast<const char*>(self.data());
  auto* to = static_cast<char*>(out->data());
  for (size_t i = 0; i < indices->size(); ++i, to += size) {
    const int64_t offset =
        places.offset(static_cast<int64_t>(i)) + (*indices)[i] * step;
    load_strided(size, to, from + offset * size, 1, 1);
  }
  return out;
}

absl::StatusOr<Tensor> scatter_add(const Tensor& self, int64_t dim,
                                   const Tensor& index, const Tensor& src) {
  absl::StatusOr<Tensor> out = outputs::scatter_add(self, dim, index, src);
  if (!out.ok()) return out;
  const int at = *outputs::check_dim("dw::scatter_add", dim, self.dims());
  absl::StatusOr<std::vector<int64_t>> indices =
      indices_of("dw::scatter_add", "index", index, size_of(self, at));
  if (!indices.ok()) return std::move(indices).status();
  absl::StatusOr<Tensor> sums = wide_copy(self), values = wide_dense(src);
  if (!sums.ok()) return std::move(sums).status();
  if (!values.ok()) return std::move(values).status();
  const RowSet places = places_of(index, *sums, at);
  const int64_t size = dtype_size(sums->dtype()), step = stride_of(*sums, at);
  const Adder add(sums->dtype());
  auto* const to = static_cast<char*>(sums->data());
  const auto* from = static_cast<const char*>(values->data());
  for (size_t i = 0; i < indices->size(); ++i, from += size) {
    const int64_t offset =
        places.offset(static_cast<int64_t>(i)) + (*indices)[i] * step;
    add(to + offset * size, from, 1);
  }
  if (sums->dtype() == out->dtype()) return sums;
  copy_converted(*out, *sums);
  return out;
}

absl::StatusOr<Tensor> index_add(const Tensor& self, int64_t dim,
                                 const Tensor& index, const Tensor& source) {
  absl::StatusOr<Tensor> out = outputs::index_add(self, dim, index, source);
  if (!out.ok()) return out;
  const int at = *outputs::check_dim("dw::index_add", dim, self.dims());
  absl::StatusOr<std::vector<int64_t>> indices =
      indices_of("dw::index_add", "index", index, self.size(at));
  if (!indices.ok()) return std::move(indices).status();
  absl::StatusOr<Tensor> sums = wide_copy(self), values = wide_dense(source);
  if (!sums.ok()) return std::move(sums).status();
  if (!values.ok()) return std::move(values).status();
  const int64_t size = dtype_size(sums->dtype());
  const int64_t outer = extent_of(self, 0, at);
  const int64_t inner = extent_of(self, at + 1, self.dims());
  const Adder add(sums->dtype());
  const auto* from = static_cast<const char*>(values->data());
  for (int64_t o = 0; o < outer; ++o) {
    auto* const to =
        static_cast<char*>(sums->data()) + o * self.size(at) * inner * size;
    for (const int64_t i : *indices) {
      add(to + i * inner * size, from, inner);
      from += inner * size;
    }
  }
  if (sums->dtype() == out->dtype()) return sums;
  copy_converted(*out, *sums);
  return out;
}

absl::StatusOr<Tensor> embedding(const Tensor& weight, const Tensor& indices) {
  absl::StatusOr<Tensor> out = outputs::embedding(weight, indices);
  if (!out.ok()) return out;
  absl::StatusOr<std::vector<int64_t>> rows =
      indices_of("dw::embedding", "indices", indices, weight.size(0));
  if (!rows.ok()) return std::move(rows).status();
  const int64_t size = dtype_size(weight.dtype()), n = weight.size(1);
  const auto* const from = static_cast<const char*>(weight.data());
  auto* to = static_cast<char*>(out->data());
  for (const int64_t row : *rows) {
    const char* const first = from + row * weight.stride(0) * size;
    if (weight.stride(1) == 1) {
      if (n > 0) std::memcpy(to, first, static_cast<size_t>(n * size));
    } else {
      load_strided(size, to, first, weight.stride(1), n);
    }
    to += n * size;
  }
  return out;
}

absl::StatusOr<Tensor> as_strided_backward(const Tensor& grad, Ints base_size,
                                           Ints size, Ints stride,
                                           int64_t offset) {
  absl::StatusOr<Tensor> out =
      outputs::as_strided_backward(grad, base_size, size, stride, offset);
  if (!out.ok()) return out;
  absl::StatusOr<Tensor> values = wide_dense(grad);
  if (!values.ok()) return std::move(values).status();
  absl::StatusOr<Tensor> sums = Tensor::empty(base_size, values->dtype());
  if (!sums.ok()) return std::move(sums).status();
  const int64_t bytes = dtype_size(sums->dtype());
  if (sums->count() > 0) {
    std::memset(sums->data(), 0, static_cast<size_t>(sums->count() * bytes));
  }
  const RowSet places(size, stride);
  const Adder add(sums->dtype());
  const auto* from = static_cast<const char*>(values->data());
  for (int64_t i = 0; i < values->count(); ++i, from += bytes) {
    add(static_cast<char*>(sums->data()) + (offset + places.offset(i)) * bytes,
        from, 1);
  }
  if (sums->dtype() == out->dtype()) return sums;
  copy_converted(*out, *sums);
  return out;
}

DW_OPERATORS(lib) {
  using namespace distwrap::dispatch;
  lib.impl("dw::gather", {kDense, kCpu}, kernel<&gather>());
  lib.impl("dw::index_add", {kDense, kCpu}, kernel<&index_add>());
  lib.impl("dw::scatter_add", {kDense, kCpu}, kernel<&scatter_add>());
  lib.impl("dw::embedding", {kDense, kCpu}, kernel<&embedding>());
  lib.impl("dw::as_strided_backward", {kDense, kCpu},
           kernel<&as_strided_backward>());
}

}  // namespace distwrap::cpu
