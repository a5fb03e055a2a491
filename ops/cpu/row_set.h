// The rows of a tensor along one dimension, in row-major order of the others.
//
// Threads: plain data. Ownership: the tensor is borrowed.
#ifndef DISTWRAP_OPS_CPU_ROW_SET_H_
#define DISTWRAP_OPS_CPU_ROW_SET_H_

#include "cpu/convert.h"
#include "distwrap/tensor.h"

#include <absl/types/span.h>

#include <cstdint>
#include <vector>

namespace distwrap::cpu {

class RowSet {
 public:
  RowSet() = default;
  // `sizes` and `strides` of the dimensions without the row's, in elements.
  RowSet(absl::Span<const int64_t> sizes, absl::Span<const int64_t> strides) {
    for (size_t d = 0; d < sizes.size(); ++d) append(sizes[d], strides[d]);
  }
  RowSet(const Tensor& tensor, int dim) {
    for (int d = 0; d < tensor.dims(); ++d) {
      if (d != dim) append(tensor.size(d), tensor.stride(d));
    }
  }
  // The number of rows.
  int64_t count() const {
    int64_t rows = 1;
    for (const Dim& dim : dims_) rows *= dim.size;
    return rows;
  }
  // The elements between the first element of the tensor and that of a row.
  int64_t offset(int64_t row) const {
    if (dims_.size() == 1) return row * dims_[0].stride;
    int64_t offset = 0;
    for (size_t d = dims_.size(); d-- > 0;) {
      offset += row % dims_[d].size * dims_[d].stride;
      row /= dims_[d].size;
    }
    return offset;
  }

 private:
  struct Dim {
    int64_t size, stride;
  };
  void append(int64_t size, int64_t stride) {
    if (size == 1) return;
    if (!dims_.empty() && dims_.back().stride == stride * size) {
      dims_.back() = {dims_.back().size * size, stride};
    } else {
      dims_.push_back({size, stride});
    }
  }
  absl::InlinedVector<Dim, 5> dims_;
};

// Reads or writes rows of one tensor as T, float or double.
template <class T>
class RowsAs {
 public:
  RowsAs(const Tensor& tensor, int dim)
      : rows_(tensor, dim),
        data_(static_cast<char*>(tensor.data())),
        dtype_(tensor.dtype()),
        length_(tensor.dims() == 0 ? 1 : tensor.size(dim)),
        stride_(tensor.dims() == 0 ? 1 : tensor.stride(dim)),
        direct_(!is_half(dtype_) && (stride_ == 1 || length_ <= 1)),
        room_(direct_ ? 0 : static_cast<size_t>(length_)) {}
  int64_t count() const { return rows_.count(); }
  int64_t length() const { return length_; }
  const T* read(int64_t row) {
    return read_row(dtype_, at(row), stride_, length_, room_.data());
  }
  // Where to write a row; written() brings it into the tensor.
  T* write(int64_t row) {
    return direct_ ? reinterpret_cast<T*>(at(row)) : room_.data();
  }
  void written(int64_t row) {
    if (!direct_) write_row(dtype_, at(row), stride_, length_, room_.data());
  }

 private:
  char* at(int64_t row) {
    return data_ + rows_.offset(row) * dtype_size(dtype_);
  }
  RowSet rows_;
  char* data_;
  DType dtype_;
  int64_t length_, stride_;
  bool direct_;
  std::vector<T> room_;
};

}  // namespace distwrap::cpu

#endif  // DISTWRAP_OPS_CPU_ROW_SET_H_
