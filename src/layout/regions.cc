#include "layout/regions.h"

#include "base/error.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>

#include <algorithm>

namespace distwrap::layout {

Coordinates::Coordinates(absl::Span<const int64_t> sizes)
    : sizes_(sizes.begin(), sizes.end()), strides_(sizes.size(), 1) {
  for (size_t i = sizes_.size(); i-- > 0;) {
    strides_[i] = ranks_;
    ranks_ *= sizes_[i];
  }
}

Regions::Regions(const Layout& layout, absl::Span<const int64_t> shape)
    : dims_(shape.size()) {
  const Coordinates at(layout.mesh().sizes);
  for (size_t d = 0; d < shape.size(); ++d) {
    Dim& dim = dims_[d];
    dim.sets.push_back(IndexSet::all(shape[d]));
    for (const Layout::Cut& cut : layout.cuts(static_cast<int>(d))) {
      const int64_t n = at.size(cut.axis);
      dim.of_rank.resize(static_cast<size_t>(at.ranks()));
      // The coordinate on an axis is the same for `stride` ranks in a row.
      for (size_t rank = 0; rank < dim.of_rank.size();)
        for (int64_t i = 0; i < n; ++i)
          for (int64_t k = 0; k < at.stride(cut.axis); ++k, ++rank)
            dim.of_rank[rank] = dim.of_rank[rank] * static_cast<uint32_t>(n) +
                                static_cast<uint32_t>(i);
      std::vector<IndexSet> next;
      next.reserve(dim.sets.size() * static_cast<size_t>(n));
      for (const IndexSet& outer : dim.sets)
        for (int64_t i = 0; i < n; ++i)
          next.push_back(outer.cut(cut.factor, n, i));
      dim.sets = std::move(next);
    }
  }
}

int64_t Regions::count(int64_t rank) const {
  int64_t product = 1;
  for (int d = 0; d < dims(); ++d) product *= set(rank, d).count();
  return product;
}

int64_t Regions::largest() const {
  // An index set of one dimension goes with every set of the others.
  int64_t product = 1;
  for (const Dim& dim : dims_) {
    int64_t most = 0;
    for (const IndexSet& one : dim.sets) most = std::max(most, one.count());
    product *= most;
  }
  return product;
}

int64_t common(const Regions& x, int64_t a, const Regions& y, int64_t b) {
  int64_t product = 1;
  for (int d = 0; d < x.dims() && product != 0; ++d)
    product *= common(x.set(a, d), y.set(b, d));
  return product;
}

bool same(const Regions& x, const Regions& y, int64_t ranks) {
  for (int64_t rank = 0; rank < ranks; ++rank) {
    const int64_t count = x.count(rank);
    if (count != y.count(rank) || count != common(x, rank, y, rank))
      return false;
  }
  return true;
}

absl::Status check_shape(const Layout& layout,
                         absl::Span<const int64_t> shape) {
  const auto text = [&] {
    return absl::StrCat("[", absl::StrJoin(shape, ", "), "]");
  };
  if (shape.size() < static_cast<size_t>(layout.dims()))
    return base::make_error(
        {.reason = Reason::kPlacement,
         .what = absl::StrCat("the layout cuts dimension ", layout.dims() - 1,
                              " of a tensor of ", shape.size(), " dimensions"),
         .expected = absl::StrCat("at least ", layout.dims(), " dimensions"),
         .actual = text()});
  int64_t count = 1;
  bool overflows = false;
  for (const int64_t extent : shape) {
    if (extent < 0)
      return base::make_error({.reason = Reason::kInvalidArgument,
                               .what = "an extent of the shape is negative",
                               .actual = text(),
                               .next_step = "give extents of 0 or more"});
    overflows |=
        __builtin_mul_overflow(count, std::max<int64_t>(extent, 1), &count);
  }
  if (!overflows) return absl::OkStatus();
  return base::make_error(
      {.reason = Reason::kInvalidArgument,
       .what = "the shape has more elements than 63 bits count",
       .actual = text(),
       .next_step = "give a smaller shape"});
}

}  // namespace distwrap::layout
