// How a tensor lies on a mesh of ranks: one placement for each axis of the
// mesh.
//
// A layout knows mesh and placements, and neither the shape nor the element
// type of a tensor. It says which elements each rank holds, by the region rule
// of docs/layouts.md. Layouts are pure values: no group is needed.
//
// Threads: any. Ownership: layouts are interned and live until the process
// ends; equal layouts are the same object.
//
//   const distwrap::MeshShape mesh{.sizes = {2, 4}, .names = {"dp", "tp"}};
//   absl::StatusOr<const distwrap::Layout*> rows =
//       distwrap::Layout::parse(mesh, "R,S(0)");
//   (*rows)->local_shape({8, 6}, /*rank=*/0);  // {2, 6}
#ifndef DISTWRAP_LAYOUT_H_
#define DISTWRAP_LAYOUT_H_

#include "distwrap/export.h"

#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>
#include <absl/types/span.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace distwrap {

// The sizes of a mesh's axes, the last one fastest, and their names (none, or
// one for each axis).
struct MeshShape {
  std::vector<int64_t> sizes = {};
  std::vector<std::string> names = {};
  friend bool operator==(const MeshShape&, const MeshShape&) = default;
};

// How the values of the ranks along a partial axis become one.
enum class PartialOp : uint8_t {
  kSum,
  kAvg,  // one sum, then one division; integers truncate toward zero
  kMin,
  kMax,
  kProduct,
  kBand,  // bitwise, of integers and bool
  kBor,
  kBxor,
  kNorm,  // (sum of |x|^p)^(1/p) of the parts' norms, of floats; `norm` is p
};

// "sum", "avg" and so on.
DISTWRAP_EXPORT absl::string_view partial_op_name(PartialOp op);

// A placement says what one axis of the mesh does to a tensor.
struct Placement {
  enum class Kind : uint8_t {
    kReplicate,  // each coordinate holds the same elements
    kShard,      // dimension `dim` is cut among the coordinates
    kPartial,    // each coordinate holds a part of every value
  };
  Kind kind = Kind::kReplicate;
  // A replicated value whose gradient is partial; data plans ignore it.
  bool reduced = false;
  PartialOp op = PartialOp::kSum;  // used by kPartial
  int dim = 0;                     // used by kShard
  // The dimension is split into this many parts, and each coordinate holds its
  // piece of every part. 1: one piece.
  int64_t factor = 1;
  double norm = 0;  // used by kNorm: above 0 and finite

  static Placement replicate() { return {}; }
  static Placement shard(int dim, int64_t factor = 1) {
    return {.kind = Kind::kShard, .dim = dim, .factor = factor};
  }
  static Placement partial(PartialOp op = PartialOp::kSum) {
    return {.kind = Kind::kPartial, .op = op};
  }
  static Placement partial_norm(double p) {
    return {.kind = Kind::kPartial, .op = PartialOp::kNorm, .norm = p};
  }
  friend bool operator==(const Placement&, const Placement&) = default;
};

// "R", "R^", "S(0)", "SS(0,2)", "P(sum)", "P(norm2)".
DISTWRAP_EXPORT std::string placement_text(const Placement& placement);
// The reverse; "P" is "P(sum)". kPlacement with the position for other texts.
DISTWRAP_EXPORT absl::StatusOr<Placement> parse_placement(
    absl::string_view text);

// For dimensions that several axes cut in another order than that of the axes:
// the axes, outermost cut first.
using ShardOrder = std::map<int, std::vector<int>>;

// For each dimension of a tensor the names of the axes that cut it, outermost
// cut first.
using AliasMap = std::vector<std::vector<std::string>>;

class DISTWRAP_EXPORT Layout {
 public:
  struct Cut {
    int axis = 0;
    int64_t factor = 1;
    friend bool operator==(const Cut&, const Cut&) = default;
  };

  // kMeshShape: no axis, an axis below 1, another number of names, a repeated
  // name. kPlacement: another number of placements than of axes, a dimension
  // out of range, an order that names other axes than those that cut.
  // kPartialState: partial operations that differ, sum and avg apart, or a norm
  // that is not above 0 and finite.
  // kStrideOrder: a factor beside an order.
  static absl::StatusOr<const Layout*> make(
      const MeshShape& mesh, absl::Span<const Placement> placements,
      const ShardOrder& order = {});
  // The layout of a text: placements, separated by commas, such as
  // "P(sum),S(0)"; parentheses around all of them may stand, and an order after
  // them, as text() writes it. Errors: as make, and kPlacement with the part
  // that cannot be read.
  static absl::StatusOr<const Layout*> parse(const MeshShape& mesh,
                                             absl::string_view text);
  // The spelling by the dimensions of the tensor. Axes in `partial` are
  // partial, and the others replicated. kPlacement for an axis that does not
  // exist or is named twice, kPartialState for one that is cut and partial.
  static absl::StatusOr<const Layout*> from_alias_map(
      const MeshShape& mesh, const AliasMap& map,
      const std::map<std::string, PartialOp>& partial = {});

  const MeshShape& mesh() const { return mesh_; }
  const std::vector<Placement>& placements() const { return placements_; }
  // The cuts of a dimension, outermost first; empty for an uncut one.
  const std::vector<Cut>& cuts(int dim) const;
  // The number of dimensions a tensor needs to have at least.
  int dims() const { return static_cast<int>(cuts_.size()); }
  int64_t ranks() const { return ranks_; }
  // A number that is equal in all processes for equal layouts.
  uint64_t id() const { return id_; }
  bool is_partial() const;

  // The order of the cuts where it is not that of the axes.
  ShardOrder order() const;
  // kStrideOrder when the layout has a strided cut that no order explains.
  absl::StatusOr<AliasMap> alias_map(int dims) const;
  // "(P(sum),S(0))", and " order=0:[1,0]" where the order is another one.
  std::string text() const;

  // The coordinate of a rank: one number for each axis.
  std::vector<int64_t> coordinate(int64_t rank) const;
  // The shape of a rank's part of a tensor of `shape`. kPlacement when the
  // tensor has fewer dimensions than the layout cuts, kInvalidArgument for a
  // negative extent or a rank outside of the mesh.
  absl::StatusOr<std::vector<int64_t>> local_shape(
      absl::Span<const int64_t> shape, int64_t rank) const;
  // The first index in each dimension of a rank's part; an empty part begins at
  // the extent of the dimension. Errors: as local_shape.
  absl::StatusOr<std::vector<int64_t>> offset(absl::Span<const int64_t> shape,
                                              int64_t rank) const;
  // All indices of a dimension that a rank holds, ascending. Errors: as
  // local_shape.
  absl::StatusOr<std::vector<int64_t>> indices(absl::Span<const int64_t> shape,
                                               int64_t rank, int dim) const;

 private:
  friend class LayoutTable;
  Layout() = default;

  MeshShape mesh_;
  std::vector<Placement> placements_;
  std::vector<std::vector<Cut>> cuts_;  // by dimension
  int64_t ranks_ = 1;
  uint64_t id_ = 0;
};

// Whether each rank holds the same elements of a tensor of `shape` by both
// layouts, and the same axes are partial.
DISTWRAP_EXPORT absl::StatusOr<bool> equivalent(
    const Layout& a, const Layout& b, absl::Span<const int64_t> shape);

// The layout of a gradient: S stays, R and R^ stay R and become P, and P
// becomes R^ (docs/layouts.md).
DISTWRAP_EXPORT absl::StatusOr<const Layout*> cotangent(const Layout& layout);

}  // namespace distwrap

#endif  // DISTWRAP_LAYOUT_H_
