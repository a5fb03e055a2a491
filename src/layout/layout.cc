// Making layouts, and what a rank holds by one.
#include "distwrap/layout.h"

#include "base/error.h"
#include "base/mutex.h"
#include "layout/regions.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <set>
#include <unordered_map>
#include <utility>

namespace distwrap {
namespace {

using layout::Coordinates;
using layout::IndexSet;
using layout::Regions;

constexpr size_t kMostAxes = 32;
constexpr int kMostDims = 64;
constexpr int64_t kLargestFactor = 65536;

absl::Status refuse(Reason reason, std::string what, std::string expected,
                    std::string next_step) {
  return base::make_error({.reason = reason,
                           .what = std::move(what),
                           .expected = std::move(expected),
                           .next_step = std::move(next_step)});
}

absl::Status check_mesh(const MeshShape& mesh) {
  const auto bad = [](std::string what, std::string next_step) {
    return refuse(Reason::kMeshShape, std::move(what), "",
                  std::move(next_step));
  };
  if (mesh.sizes.empty() || mesh.sizes.size() > kMostAxes)
    return bad(absl::StrCat("a mesh has 1 to ", kMostAxes, " axes, not ",
                            mesh.sizes.size()),
               "give the size of each axis");
  int64_t ranks = 1;
  for (const int64_t size : mesh.sizes)
    if (size < 1 || __builtin_mul_overflow(ranks, size, &ranks) ||
        ranks > INT32_MAX)
      return bad(absl::StrCat("the mesh [", absl::StrJoin(mesh.sizes, ","),
                              "] has an axis below 1 or too many ranks"),
                 "give sizes of 1 or more");
  if (!mesh.names.empty() && mesh.names.size() != mesh.sizes.size())
    return bad(absl::StrCat("the mesh has ", mesh.sizes.size(), " axes and ",
                            mesh.names.size(), " names"),
               "give one name for each axis, or none");
  const std::set<std::string> distinct(mesh.names.begin(), mesh.names.end());
  if (distinct.size() != mesh.names.size() || distinct.contains(""))
    return bad("names of axes are repeated or empty",
               "give each axis a name of its own");
  return absl::OkStatus();
}

absl::Status check_placements(const MeshShape& mesh,
                              absl::Span<const Placement> placements) {
  if (placements.size() != mesh.sizes.size())
    return refuse(Reason::kPlacement,
                  absl::StrCat("there are ", placements.size(),
                               " placements for ", mesh.sizes.size(), " axes"),
                  absl::StrCat(mesh.sizes.size(), " placements"),
                  "give one placement for each axis of the mesh");
  const Placement* partial = nullptr;
  for (const Placement& one : placements) {
    if (one.kind == Placement::Kind::kShard &&
        (one.dim < 0 || one.dim >= kMostDims || one.factor < 1 ||
         one.factor > kLargestFactor))
      return refuse(Reason::kPlacement,
                    absl::StrCat(placement_text(one), " is out of range"),
                    absl::StrCat("a dimension from 0 to ", kMostDims - 1,
                                 " and a factor from 1 to ", kLargestFactor),
                    "number the dimensions of the tensor from 0");
    if (one.kind != Placement::Kind::kPartial) continue;
    const auto adds = [](PartialOp op) {
      return op == PartialOp::kSum || op == PartialOp::kAvg;
    };
    if (one.op == PartialOp::kNorm &&
        !(one.norm > 0 && std::isfinite(one.norm)))
      return refuse(Reason::kPartialState,
                    absl::StrCat(placement_text(one), " is no norm"),
                    "a p above 0 and finite, such as P(norm2)",
                    "use P(max) of absolute values for an infinite p");
    if (partial != nullptr &&
        (partial->op != one.op || partial->norm != one.norm) &&
        !(adds(partial->op) && adds(one.op)))
      return refuse(
          Reason::kPartialState,
          absl::StrCat("a tensor cannot be ", placement_text(*partial), " and ",
                       placement_text(one), " at once"),
          "one operation on all axes, or sum with avg",
          "reduce one of them first");
    partial = &one;
  }
  return absl::OkStatus();
}

absl::Status check_order(absl::Span<const Placement> placements,
                         const ShardOrder& order) {
  for (const auto& [dim, axes] : order) {
    std::vector<int> cutting, given = axes;
    bool strided = false;
    for (size_t a = 0; a < placements.size(); ++a)
      if (placements[a].kind == Placement::Kind::kShard &&
          placements[a].dim == dim) {
        cutting.push_back(static_cast<int>(a));
        strided |= placements[a].factor != 1;
      }
    std::sort(given.begin(), given.end());
    if (given != cutting)
      return refuse(
          Reason::kPlacement,
          absl::StrCat("the order of dimension ", dim, " names the axes [",
                       absl::StrJoin(axes, ","), "]"),
          absl::StrCat("the axes that cut it: [", absl::StrJoin(cutting, ","),
                       "]"),
          "list every axis that cuts the dimension, outermost cut first");
    if (strided)
      return refuse(
          Reason::kStrideOrder,
          absl::StrCat("dimension ", dim, " has a strided cut and an order"),
          "factors or an order", "give one of the two");
  }
  return absl::OkStatus();
}

uint64_t hash_of(absl::string_view text) {
  uint64_t hash = 0xcbf29ce484222325;  // FNV-1a
  for (const char c : text) {
    hash ^= static_cast<unsigned char>(c);
    hash *= 0x100000001b3;
  }
  return hash;
}

absl::Status check_rank(const Layout& layout, absl::Span<const int64_t> shape,
                        int64_t rank) {
  if (rank < 0 || rank >= layout.ranks())
    return refuse(Reason::kInvalidArgument,
                  absl::StrCat("the mesh has no rank ", rank),
                  absl::StrCat("a rank from 0 to ", layout.ranks() - 1),
                  "number the ranks by their place in the mesh");
  return layout::check_shape(layout, shape);
}

}  // namespace

// All layouts of the process. They are never freed.
class LayoutTable {
 public:
  static const Layout* find(const MeshShape& mesh,
                            absl::Span<const Placement> placements,
                            std::vector<std::vector<Layout::Cut>> cuts) {
    auto made = std::unique_ptr<Layout>(new Layout());
    made->mesh_ = mesh;
    made->placements_.assign(placements.begin(), placements.end());
    made->cuts_ = std::move(cuts);
    for (const int64_t size : mesh.sizes) made->ranks_ *= size;
    const std::string key =
        absl::StrCat("[", absl::StrJoin(mesh.sizes, ","), "]",
                     absl::StrJoin(mesh.names, ","), " ", made->text());
    made->id_ = hash_of(key);
    static LayoutTable& table = *new LayoutTable();
    const base::MutexLock lock(table.mutex_);
    return table.rows_.try_emplace(key, std::move(made)).first->second.get();
  }

 private:
  base::Mutex mutex_;
  std::unordered_map<std::string, std::unique_ptr<const Layout>> rows_
      ABSL_GUARDED_BY(mutex_);
};

absl::StatusOr<const Layout*> Layout::make(
    const MeshShape& mesh, absl::Span<const Placement> placements,
    const ShardOrder& order) {
  absl::Status status = check_mesh(mesh);
  if (status.ok()) status = check_placements(mesh, placements);
  if (status.ok()) status = check_order(placements, order);
  if (!status.ok()) return status;
  std::vector<std::vector<Cut>> cuts;
  const auto cut = [&](int axis, const Placement& placement) {
    if (placement.dim >= static_cast<int>(cuts.size()))
      cuts.resize(static_cast<size_t>(placement.dim) + 1);
    cuts[static_cast<size_t>(placement.dim)].push_back(
        {axis, placement.factor});
  };
  for (size_t a = 0; a < placements.size(); ++a)
    if (placements[a].kind == Placement::Kind::kShard &&
        !order.contains(placements[a].dim))
      cut(static_cast<int>(a), placements[a]);
  for (const auto& [dim, axes] : order)
    for (const int axis : axes)
      cut(axis, placements[static_cast<size_t>(axis)]);
  return LayoutTable::find(mesh, placements, std::move(cuts));
}

const std::vector<Layout::Cut>& Layout::cuts(int dim) const {
  static const std::vector<Cut>& none = *new std::vector<Cut>();
  return dim < 0 || dim >= dims() ? none : cuts_[static_cast<size_t>(dim)];
}

bool Layout::is_partial() const {
  return std::any_of(placements_.begin(), placements_.end(),
                     [](const Placement& one) {
                       return one.kind == Placement::Kind::kPartial;
                     });
}

ShardOrder Layout::order() const {
  ShardOrder different;
  for (size_t d = 0; d < cuts_.size(); ++d) {
    const auto by_axis = [](const Cut& a, const Cut& b) {
      return a.axis < b.axis;
    };
    if (std::is_sorted(cuts_[d].begin(), cuts_[d].end(), by_axis)) continue;
    for (const Cut& cut : cuts_[d])
      different[static_cast<int>(d)].push_back(cut.axis);
  }
  return different;
}

std::vector<int64_t> Layout::coordinate(int64_t rank) const {
  const Coordinates at(mesh_.sizes);
  std::vector<int64_t> coordinate;
  for (int a = 0; a < at.axes(); ++a) coordinate.push_back(at.of(rank, a));
  return coordinate;
}

absl::StatusOr<std::vector<int64_t>> Layout::local_shape(
    absl::Span<const int64_t> shape, int64_t rank) const {
  if (absl::Status status = check_rank(*this, shape, rank); !status.ok())
    return status;
  const Regions regions(*this, shape);
  std::vector<int64_t> extents;
  for (int d = 0; d < regions.dims(); ++d)
    extents.push_back(regions.set(rank, d).count());
  return extents;
}

absl::StatusOr<std::vector<int64_t>> Layout::offset(
    absl::Span<const int64_t> shape, int64_t rank) const {
  if (absl::Status status = check_rank(*this, shape, rank); !status.ok())
    return status;
  const Regions regions(*this, shape);
  std::vector<int64_t> first;
  for (int d = 0; d < regions.dims(); ++d) {
    const IndexSet& set = regions.set(rank, d);
    first.push_back(set.empty() ? shape[static_cast<size_t>(d)]
                                : set.intervals().front().begin);
  }
  return first;
}

absl::StatusOr<std::vector<int64_t>> Layout::indices(
    absl::Span<const int64_t> shape, int64_t rank, int dim) const {
  if (absl::Status status = check_rank(*this, shape, rank); !status.ok())
    return status;
  if (dim < 0 || dim >= static_cast<int>(shape.size()))
    return refuse(Reason::kInvalidArgument,
                  absl::StrCat("the tensor has no dimension ", dim), "",
                  "number its dimensions from 0");
  std::vector<int64_t> all;
  const Regions regions(*this, shape);
  for (const layout::Interval& one : regions.set(rank, dim).intervals())
    for (int64_t i = one.begin; i < one.end; ++i) all.push_back(i);
  return all;
}

absl::StatusOr<bool> equivalent(const Layout& a, const Layout& b,
                                absl::Span<const int64_t> shape) {
  if (&a == &b) return true;
  if (a.mesh() != b.mesh())
    return refuse(Reason::kMeshMismatch, "the layouts are on different meshes",
                  "", "compare layouts on one mesh");
  for (const Layout* one : {&a, &b})
    if (absl::Status status = layout::check_shape(*one, shape); !status.ok())
      return status;
  for (size_t i = 0; i < a.placements().size(); ++i) {
    const Placement &p = a.placements()[i], &q = b.placements()[i];
    const bool both = p.kind == Placement::Kind::kPartial &&
                      q.kind == Placement::Kind::kPartial && p.op == q.op &&
                      p.norm == q.norm;
    const bool none = p.kind != Placement::Kind::kPartial &&
                      q.kind != Placement::Kind::kPartial;
    if (!both && !none && a.mesh().sizes[i] > 1) return false;
  }
  return layout::same(Regions(a, shape), Regions(b, shape), a.ranks());
}

absl::StatusOr<const Layout*> cotangent(const Layout& layout) {
  std::vector<Placement> placements = layout.placements();
  for (Placement& one : placements) {
    if (one.kind == Placement::Kind::kPartial) {
      if (one.op != PartialOp::kSum && one.op != PartialOp::kAvg)
        return refuse(
            Reason::kPartialState,
            absl::StrCat(placement_text(one), " has no layout of a gradient"),
            "P(sum) or P(avg)", "reduce it first");
      one = {.kind = Placement::Kind::kReplicate, .reduced = true};
    } else if (one.kind == Placement::Kind::kReplicate && one.reduced) {
      one = Placement::partial();
    }
  }
  return Layout::make(layout.mesh(), placements, layout.order());
}

}  // namespace distwrap
