// The elements of a tensor that each rank of a mesh holds.
//
// A rank's region is the product of one index set for each dimension. All ranks
// with equal coordinates on the axes that cut a dimension share its index set,
// so the sets are kept by those coordinates.
//
// Threads: reading from any. Ownership: a value, which copies what it needs.
#ifndef DISTWRAP_SRC_LAYOUT_REGIONS_H_
#define DISTWRAP_SRC_LAYOUT_REGIONS_H_

#include "distwrap/layout.h"
#include "layout/index_set.h"

#include <absl/status/status.h>
#include <absl/types/span.h>

#include <cstdint>
#include <vector>

namespace distwrap::layout {

// The coordinates of a mesh's ranks, row-major.
class Coordinates {
 public:
  explicit Coordinates(absl::Span<const int64_t> sizes);
  int64_t ranks() const { return ranks_; }
  int axes() const { return static_cast<int>(sizes_.size()); }
  int64_t size(int axis) const { return sizes_[static_cast<size_t>(axis)]; }
  int64_t stride(int axis) const { return strides_[static_cast<size_t>(axis)]; }
  int64_t of(int64_t rank, int axis) const {
    return rank / stride(axis) % size(axis);
  }

 private:
  std::vector<int64_t> sizes_, strides_;
  int64_t ranks_ = 1;
};

class Regions {
 public:
  // `shape` has at least as many dimensions as the layout cuts.
  Regions(const Layout& layout, absl::Span<const int64_t> shape);

  int dims() const { return static_cast<int>(dims_.size()); }
  const IndexSet& set(int64_t rank, int dim) const {
    const Dim& one = dims_[static_cast<size_t>(dim)];
    if (one.of_rank.empty()) return one.sets[0];
    return one.sets[one.of_rank[static_cast<size_t>(rank)]];
  }
  // The number of elements of a rank.
  int64_t count(int64_t rank) const;
  // The number of elements of the rank with the most.
  int64_t largest() const;

 private:
  struct Dim {
    std::vector<IndexSet> sets;
    std::vector<uint32_t> of_rank;  // number of its set; empty: all have the
                                    // only one
  };
  std::vector<Dim> dims_;
};

// The number of elements that rank `a` of `x` and rank `b` of `y` both hold.
int64_t common(const Regions& x, int64_t a, const Regions& y, int64_t b);
// Whether each rank holds the same elements in both.
bool same(const Regions& x, const Regions& y, int64_t ranks);

// kInvalidArgument or kPlacement when a tensor of `shape` cannot have the
// layout.
absl::Status check_shape(const Layout& layout, absl::Span<const int64_t> shape);

}  // namespace distwrap::layout

#endif  // DISTWRAP_SRC_LAYOUT_REGIONS_H_
