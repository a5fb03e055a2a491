#include "cpu/attention.h"

#include "cpu/strided_copy.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace distwrap::cpu {
namespace {

RowSet leading_of(const Tensor& tensor) {
  const auto lead = static_cast<size_t>(tensor.dims() - 2);
  return RowSet(tensor.sizes().first(lead), tensor.strides().first(lead));
}

}  // namespace

template <class T>
absl::StatusOr<Matrices<T>> Matrices<T>::of(const Tensor& tensor) {
  const int64_t width = tensor.size(-1);
  const bool dense = tensor.dtype() == dtype_of<T> &&
                     (width <= 1 || tensor.stride(-1) == 1) &&
                     (tensor.size(-2) <= 1 ||
                      tensor.stride(-2) >= std::max<int64_t>(width, 1));
  if (dense) return Matrices(tensor);
  absl::StatusOr<Tensor> wide = Tensor::empty(tensor.sizes(), dtype_of<T>);
  if (!wide.ok()) return std::move(wide).status();
  copy_converted(*wide, tensor);
  return Matrices(*std::move(wide));
}

template <class T>
Matrices<T>::Matrices(Tensor tensor)
    : tensor_(std::move(tensor)),
      rows_(leading_of(tensor_)),
      step_(std::max({tensor_.size(-2) <= 1 ? int64_t{0} : tensor_.stride(-2),
                      tensor_.size(-1), int64_t{1}})) {}

template <class T>
absl::StatusOr<Scores<T>> Scores<T>::of(const Tensor& query, const Tensor& key,
                                        const Tensor* mask, bool causal,
                                        double scale) {
  absl::StatusOr<Matrices<T>> queries = Matrices<T>::of(query);
  if (!queries.ok()) return std::move(queries).status();
  absl::StatusOr<Matrices<T>> keys = Matrices<T>::of(key);
  if (!keys.ok()) return std::move(keys).status();
  Scores scores(*std::move(queries), *std::move(keys));
  scores.batches_ = leading_of(query).count();
  scores.queries_ = query.size(-2);
  scores.keys_ = key.size(-2);
  scores.width_ = query.size(-1);
  scores.scale_ = static_cast<T>(scale);
  scores.causal_ = causal;
  if (mask == nullptr) return scores;
  scores.mask_ = *mask;
  Dims strides(static_cast<size_t>(query.dims()), 0);
  const int lead = query.dims() - mask->dims();
  for (int d = 0; d < mask->dims(); ++d) {
    if (mask->size(d) != 1)
      strides[static_cast<size_t>(lead + d)] = mask->stride(d);
  }
  scores.mask_right_ = strides.back();
  scores.mask_down_ = strides[strides.size() - 2];
  scores.mask_rows_ =
      RowSet(query.sizes().first(strides.size() - 2),
             absl::MakeConstSpan(strides).first(strides.size() - 2));
  return scores;
}

// The last query sees the last key; each one before it sees one key less.
template <class T>
int64_t Scores<T>::keys_seen(int64_t query) const {
  if (!causal_) return keys_;
  return std::clamp<int64_t>(query + keys_ - queries_, 0, keys_);
}

template <class T>
void Scores<T>::compute(int64_t batch, int64_t i, int64_t rows, int64_t j,
                        int64_t columns, T* scores) {
  if (width_ > 0) {
    Matrix<const T> keys = key_.at(batch, j);
    keys.transposed = true;
    product<T>(rows, columns, width_, scale_, query_.at(batch, i), keys, T{0},
               {scores, kKeys});
  } else {
    std::fill_n(scores, rows * kKeys, T{0});
  }
  if (mask_.defined()) apply_mask(batch, i, rows, j, columns, scores);
  if (!causal_) return;
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t seen =
        std::clamp<int64_t>(keys_seen(i + r + 1) - j, 0, columns);
    std::fill(scores + r * kKeys + seen, scores + r * kKeys + columns,
              -std::numeric_limits<T>::infinity());
  }
}

template <class T>
void Scores<T>::apply_mask(int64_t batch, int64_t i, int64_t rows, int64_t j,
                           int64_t columns, T* scores) {
  const int64_t size = dtype_size(mask_.dtype());
  T room[kKeys];
  uint8_t bytes[kKeys];
  for (int64_t r = 0; r < rows; ++r) {
    const char* const from =
        static_cast<const char*>(mask_.data()) +
        (mask_rows_.offset(batch) + (i + r) * mask_down_ + j * mask_right_) *
            size;
    T* const row = scores + r * kKeys;
    if (mask_.dtype() == DType::kBool) {
      load_strided(1, bytes, from, mask_right_, columns);
      for (int64_t c = 0; c < columns; ++c)
        row[c] = bytes[c] != 0 ? row[c] : -std::numeric_limits<T>::infinity();
    } else {
      const T* const added =
          read_row(mask_.dtype(), from, mask_right_, columns, room);
      for (int64_t c = 0; c < columns; ++c) row[c] += added[c];
    }
  }
}

template class Matrices<float>;
template class Matrices<double>;
template class Scores<float>;
template class Scores<double>;

}  // namespace distwrap::cpu
