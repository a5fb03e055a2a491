// A set of indices of one dimension, as ascending intervals.
//
// Threads and ownership: values.
#ifndef DISTWRAP_SRC_LAYOUT_INDEX_SET_H_
#define DISTWRAP_SRC_LAYOUT_INDEX_SET_H_

#include <absl/container/inlined_vector.h>

#include <cstdint>

namespace distwrap::layout {

struct Interval {
  int64_t begin = 0, end = 0;  // end is not in it
  int64_t size() const { return end - begin; }
  friend bool operator==(const Interval&, const Interval&) = default;
};

class IndexSet {
 public:
  IndexSet() = default;
  // All indices from 0 to size - 1.
  static IndexSet all(int64_t size);

  int64_t count() const { return count_; }
  bool empty() const { return count_ == 0; }
  const absl::InlinedVector<Interval, 2>& intervals() const {
    return intervals_;
  }

  // Appends indices that lie behind all others.
  void append(Interval interval);

  // The indices that coordinate i of n keeps when the list of indices is split
  // into `parts` parts and each part into n chunks: the i-th chunk of every
  // part. A list of length L in n chunks has chunks of ceil(L / n); later ones
  // may be short or empty.
  IndexSet cut(int64_t parts, int64_t n, int64_t i) const;

  friend bool operator==(const IndexSet& a, const IndexSet& b) {
    return a.intervals_ == b.intervals_;
  }

 private:
  // Appends the indices at the positions from `begin` to `end` - 1 of the list.
  void append_positions(const IndexSet& from, int64_t begin, int64_t end);

  absl::InlinedVector<Interval, 2> intervals_;
  int64_t count_ = 0;
};

IndexSet intersection(const IndexSet& a, const IndexSet& b);
// The number of common indices.
int64_t common(const IndexSet& a, const IndexSet& b);

}  // namespace distwrap::layout

#endif  // DISTWRAP_SRC_LAYOUT_INDEX_SET_H_
