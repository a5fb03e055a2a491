// The sum of many rows, pairwise in blocks of rows.
#ifndef DISTWRAP_OPS_CPU_ROW_TOTAL_H_
#define DISTWRAP_OPS_CPU_ROW_TOTAL_H_

#include "cpu/loops.h"

#include <algorithm>
#include <cstdint>
#include <vector>

namespace distwrap::cpu {

template <class T>
class RowTotal {
 public:
  explicit RowTotal(int64_t length)
      : length_(length), block_(static_cast<size_t>(length)) {}

  void add(const T* row) {
    join(block_.data(), row);
    if (++rows_ % kRows == 0) finish_block();
  }
  // The sum; no row is added after it.
  const T* total() {
    if (rows_ % kRows != 0) finish_block();
    std::fill(block_.begin(), block_.end(), T{0});
    for (size_t level = 0; level < levels_.size(); ++level) {
      if ((blocks_ >> level & 1) != 0)
        join(block_.data(), levels_[level].data());
    }
    return block_.data();
  }

 private:
  static constexpr int64_t kRows = 64;

  void join(T* to, const T* from) {
    void* const p[] = {to, to, const_cast<T*>(from)};
    add_(p, length_, &one_);
  }
  void finish_block() {
    size_t level = 0;
    for (uint64_t left = blocks_++; (left & 1) != 0; left >>= 1)
      join(block_.data(), levels_[level++].data());
    if (level == levels_.size()) levels_.emplace_back(block_.size());
    std::swap(levels_[level], block_);
    std::fill(block_.begin(), block_.end(), T{0});
  }

  int64_t length_, rows_ = 0;
  uint64_t blocks_ = 0;
  std::vector<T> block_;
  std::vector<std::vector<T>> levels_;
  Loop add_ = loops().find(Op::kAdd, dtype_of<T>);
  Number one_ = Number::of(1, dtype_of<T>);
};

}  // namespace distwrap::cpu

#endif  // DISTWRAP_OPS_CPU_ROW_TOTAL_H_
