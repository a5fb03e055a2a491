// The scores of a block of queries by a block of keys, with the mask and the
// causal rule applied: both directions of attention use them.
//
// Threads: an object belongs to one thread. Ownership: handles of tensors.
#ifndef DISTWRAP_OPS_CPU_ATTENTION_H_
#define DISTWRAP_OPS_CPU_ATTENTION_H_

#include "cpu/products.h"
#include "cpu/row_set.h"
#include "distwrap/tensor.h"

#include <absl/status/statusor.h>

#include <cstdint>
#include <vector>

namespace distwrap::cpu {

// The matrices of a tensor's last two dimensions as T, float or double. Those
// whose rows are dense are used in place.
template <class T>
class Matrices {
 public:
  static absl::StatusOr<Matrices> of(const Tensor& tensor);
  Matrix<const T> at(int64_t batch, int64_t row) const {
    return {tensor_.data<const T>() + rows_.offset(batch) + row * step_, step_};
  }

 private:
  explicit Matrices(Tensor tensor);
  Tensor tensor_;
  RowSet rows_;
  int64_t step_;
};

template <class T>
class Scores {
 public:
  static constexpr int64_t kQueries = 128, kKeys = 256;

  static absl::StatusOr<Scores> of(const Tensor& query, const Tensor& key,
                                   const Tensor* mask, bool causal,
                                   double scale);
  int64_t batches() const { return batches_; }
  int64_t queries() const { return queries_; }
  int64_t keys() const { return keys_; }
  const Matrices<T>& query() const { return query_; }
  const Matrices<T>& key() const { return key_; }
  // The keys from which on a block of queries, which ends before `query`, sees
  // none.
  int64_t keys_seen(int64_t query) const;
  // Writes rows x columns scores, kKeys to a row, from query `i` and key `j` of
  // a batch on: -infinity where a key takes no part.
  void compute(int64_t batch, int64_t i, int64_t rows, int64_t j,
               int64_t columns, T* scores);

 private:
  Scores(Matrices<T> query, Matrices<T> key) : query_(query), key_(key) {}
  void apply_mask(int64_t batch, int64_t i, int64_t rows, int64_t j,
                  int64_t columns, T* scores);

  Matrices<T> query_, key_;
  int64_t batches_ = 0, queries_ = 0, keys_ = 0, width_ = 0;
  T scale_ = 0;
  bool causal_ = false;
  // The mask, with the strides under which it has the sizes of the scores.
  Tensor mask_;
  RowSet mask_rows_;
  int64_t mask_down_ = 0, mask_right_ = 0;
};

}  // namespace distwrap::cpu

#endif  // DISTWRAP_OPS_CPU_ATTENTION_H_
