// Pairwise joining of the results of blocks, in the order in which they come:
// the tree depends on the number of blocks alone.
#ifndef DISTWRAP_OPS_CPU_CASCADE_H_
#define DISTWRAP_OPS_CPU_CASCADE_H_

#include "cpu/loops.h"

#include <algorithm>
#include <cstdint>

namespace distwrap::cpu {

// Kind has kStart, the value of no blocks, and join(earlier, later).
template <class T, class Kind>
class Cascade {
 public:
  void push(T value) {
    int level = 0;
    for (uint64_t left = blocks_++; (left & 1) != 0; left >>= 1)
      value = Kind::join(levels_[level++], value);
    levels_[level] = value;
  }
  T value() const {
    T total = Kind::kStart;
    bool first = true;
    for (int level = 0; blocks_ >> level != 0; ++level) {
      if ((blocks_ >> level & 1) == 0) continue;
      total = first ? levels_[level] : Kind::join(levels_[level], total);
      first = false;
    }
    return total;
  }

 private:
  uint64_t blocks_ = 0;
  T levels_[54];
};

template <class T>
struct Adding {
  static constexpr T kStart = 0;
  static T join(T a, T b) { return a + b; }
};

// The sum of block(at, count) over all blocks of n elements.
template <class T, class Block>
T sum_of_blocks(int64_t n, const Block& block) {
  if (n <= kBlock) return block(int64_t{0}, n);
  Cascade<T, Adding<T>> cascade;
  for (int64_t at = 0; at < n; at += kBlock)
    cascade.push(block(at, std::min(n - at, kBlock)));
  return cascade.value();
}

// Reductions of rows of any length, T is float or double.
template <class T>
T sum_row(const T* x, int64_t n) {
  return sum_of_blocks<T>(n, [x](int64_t at, int64_t count) {
    return rows<T>().sum(x + at, count);
  });
}
template <class T>
T dot_row(const T* x, const T* y, int64_t n) {
  return sum_of_blocks<T>(n, [x, y](int64_t at, int64_t count) {
    return rows<T>().dot(x + at, y + at, count);
  });
}
template <class T>
T squares_row(const T* x, T mean, int64_t n) {
  return sum_of_blocks<T>(n, [x, mean](int64_t at, int64_t count) {
    return rows<T>().squares(x + at, mean, count);
  });
}

}  // namespace distwrap::cpu

#endif  // DISTWRAP_OPS_CPU_CASCADE_H_
