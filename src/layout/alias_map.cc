// Layouts by the dimensions of the tensor, and strided cuts as an order.
#include "base/error.h"
#include "distwrap/layout.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <string>
#include <utility>

namespace distwrap {
namespace {

absl::Status bad_axis(const MeshShape& mesh, const std::string& name,
                      absl::string_view problem) {
  std::string known;
  for (const std::string& one : mesh.names)
    absl::StrAppend(&known, known.empty() ? "" : ", ", one);
  return base::make_error(
      {.reason = Reason::kPlacement,
       .what = absl::StrCat("the axis \"", name, "\" ", problem),
       .expected =
           known.empty() ? "a mesh with names" : absl::StrCat("one of ", known),
       .next_step = "name each axis of the mesh at most once"});
}

// The axes of a dimension, outermost cut first, of which `cuts` in the order of
// the axes are strided: each goes to where the product of the sizes of those
// before it that have larger numbers is its factor. kStrideOrder when it has no
// such place.
absl::StatusOr<std::vector<int>> order_of(const MeshShape& mesh, int dim,
                                          std::vector<Layout::Cut> cuts) {
  std::sort(cuts.begin(), cuts.end(),
            [](const auto& a, const auto& b) { return a.axis > b.axis; });
  std::vector<int> order;
  for (const Layout::Cut& cut : cuts) {
    int64_t product = 1;
    size_t place = 0;
    while (product < cut.factor && place < order.size())
      product *= mesh.sizes[static_cast<size_t>(order[place++])];
    // Axes of one coordinate cut nothing.
    if (product != cut.factor)
      return base::make_error(
          {.reason = Reason::kStrideOrder,
           .what = absl::StrCat("no order of axes cuts dimension ", dim,
                                " with the factor ", cut.factor, " on axis ",
                                cut.axis),
           .next_step = "give the layout with placements, or another factor"});
    order.insert(order.begin() + static_cast<std::ptrdiff_t>(place), cut.axis);
  }
  return order;
}

}  // namespace

absl::StatusOr<const Layout*> Layout::from_alias_map(
    const MeshShape& mesh, const AliasMap& map,
    const std::map<std::string, PartialOp>& partial) {
  std::vector<Placement> placements(mesh.sizes.size());
  std::vector<bool> used(mesh.sizes.size(), false);
  ShardOrder order;
  const auto place = [&](const std::string& name,
                         const Placement& placement) -> absl::StatusOr<int> {
    const auto found = std::find(mesh.names.begin(), mesh.names.end(), name);
    if (found == mesh.names.end())
      return bad_axis(mesh, name, "is none of the mesh");
    const size_t axis = static_cast<size_t>(found - mesh.names.begin());
    if (used[axis]) return bad_axis(mesh, name, "is named twice");
    used[axis] = true;
    placements[axis] = placement;
    return static_cast<int>(axis);
  };
  for (size_t d = 0; d < map.size(); ++d)
    for (const std::string& name : map[d]) {
      const absl::StatusOr<int> axis =
          place(name, Placement::shard(static_cast<int>(d)));
      if (!axis.ok()) return axis.status();
      order[static_cast<int>(d)].push_back(*axis);
    }
  for (const auto& [name, op] : partial) {
    const auto is_cut = [&, &name = name](const std::vector<std::string>& cut) {
      return std::find(cut.begin(), cut.end(), name) != cut.end();
    };
    if (std::any_of(map.begin(), map.end(), is_cut))
      return base::make_error(
          {.reason = Reason::kPartialState,
           .what = absl::StrCat("axis \"", name, "\" is cut and partial"),
           .next_step = "name each axis once, as a cut or as partial"});
    if (const auto axis = place(name, Placement::partial(op)); !axis.ok())
      return axis.status();
  }
  return make(mesh, placements, order);
}

absl::StatusOr<AliasMap> Layout::alias_map(int dims) const {
  if (mesh_.names.empty()) return bad_axis(mesh_, "", "cannot be named");
  AliasMap map(static_cast<size_t>(std::max(dims, this->dims())));
  for (int d = 0; d < this->dims(); ++d) {
    const std::vector<Cut>& cut = cuts(d);
    std::vector<int> order;
    if (std::any_of(cut.begin(), cut.end(),
                    [](const Cut& one) { return one.factor != 1; })) {
      absl::StatusOr<std::vector<int>> found = order_of(mesh_, d, cut);
      if (!found.ok()) return found.status();
      order = *std::move(found);
    } else {
      for (const Cut& one : cut) order.push_back(one.axis);
    }
    for (const int axis : order)
      map[static_cast<size_t>(d)].push_back(
          mesh_.names[static_cast<size_t>(axis)]);
  }
  return map;
}

}  // namespace distwrap
