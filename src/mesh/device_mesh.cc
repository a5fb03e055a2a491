#include "base/error.h"
#include "base/exceptions.h"
#include "distwrap/distwrap.h"
#include "distwrap/mesh.h"
#include "facade/binding.h"
#include "layout/peers.h"
#include "mesh/mesh_state.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>

#include <algorithm>
#include <atomic>
#include <numeric>
#include <set>
#include <utility>

namespace distwrap {
namespace {

absl::Status bad_ranks(std::string what, std::string expected) {
  return base::make_error({.reason = Reason::kMeshShape,
                           .what = std::move(what),
                           .op = "DeviceMesh",
                           .expected = std::move(expected),
                           .next_step = "give each rank of the mesh once, as "
                                        "ranks of the world"});
}

absl::Status no_axis(std::string what, const MeshShape& shape) {
  return base::make_error(
      {.reason = Reason::kPlacement,
       .what = std::move(what),
       .op = "DeviceMesh",
       .expected = shape.names.empty() ? absl::StrCat("an axis from 0 to ",
                                                      shape.sizes.size() - 1)
                                       : absl::StrJoin(shape.names, ", "),
       .next_step = "name each axis of the mesh at most once"});
}

absl::Status outside() {
  return base::make_error(
      {.reason = Reason::kMeshMismatch,
       .what = "this rank is not in the mesh",
       .op = "DeviceMesh",
       .next_step = "make the call on the mesh's ranks alone"});
}

absl::StatusOr<std::vector<int>> axes_of(
    const MeshShape& shape, absl::Span<const absl::string_view> names) {
  std::vector<int> axes;
  for (const absl::string_view name : names) {
    const auto found = std::find(shape.names.begin(), shape.names.end(), name);
    if (found == shape.names.end())
      return no_axis(absl::StrCat("the mesh has no axis \"", name, "\""),
                     shape);
    axes.push_back(static_cast<int>(found - shape.names.begin()));
  }
  return axes;
}

absl::Status check_axes(const MeshShape& shape, absl::Span<const int> axes) {
  std::vector<int> sorted(axes.begin(), axes.end());
  std::sort(sorted.begin(), sorted.end());
  if (sorted.empty()) return no_axis("no axis is named", shape);
  for (size_t i = 0; i < sorted.size(); ++i) {
    const int axis = sorted[i];
    if (axis < 0 || axis >= static_cast<int>(shape.sizes.size()))
      return no_axis(absl::StrCat("the mesh has no axis ", axis), shape);
    if (i > 0 && sorted[i - 1] == axis)
      return no_axis(absl::StrCat("axis ", axis, " is named twice"), shape);
  }
  return absl::OkStatus();
}

// The ranks of the world that differ from this one at most along `axes`.
std::vector<int> members_of(const mesh::MeshState& state,
                            absl::Span<const int> axes) {
  std::vector<int> members;
  layout::each_member(
      layout::Coordinates(state.shape().sizes), state.rank(), axes,
      [&](int64_t place) {
        members.push_back(state.ranks()[static_cast<size_t>(place)]);
      });
  return members;
}

// The number of consecutive members that share a host, if it is equal
// everywhere; 0 for one host, and for any other order.
int64_t ranks_per_host(const std::vector<int>& members) {
  const std::shared_ptr<group::GroupState> world = facade::kept_group_of({});
  if (world == nullptr) return 0;
  std::vector<int32_t> hosts;
  for (const int rank : members)
    hosts.push_back(world->host_of()[static_cast<size_t>(rank)]);
  const auto end = std::find_if(hosts.begin(), hosts.end(), [&](int32_t host) {
    return host != hosts.front();
  });
  const auto size = static_cast<size_t>(end - hosts.begin());
  if (size == hosts.size() || hosts.size() % size != 0) return 0;
  std::set<int32_t> seen;
  for (size_t i = 0; i < hosts.size(); ++i) {
    if (i % size == 0 && !seen.insert(hosts[i]).second) return 0;
    if (hosts[i] != hosts[i - i % size]) return 0;
  }
  return static_cast<int64_t>(size);
}

}  // namespace

absl::StatusOr<DeviceMesh> DeviceMesh::create(const MeshShape& shape,
                                              absl::Span<const int> ranks) try {
  // A layout of the mesh checks sizes and names.
  const absl::StatusOr<const Layout*> whole =
      Layout::make(shape, std::vector<Placement>(shape.sizes.size()));
  if (!whole.ok()) return whole.status();
  const int me = get_rank(), world = get_world_size();
  if (me < 0)
    return base::make_error({.reason = Reason::kNotInitialized,
                             .what = "DeviceMesh called before "
                                     "init_process_group",
                             .op = "DeviceMesh"});
  const int64_t size = (*whole)->ranks();
  std::vector<int> members(ranks.begin(), ranks.end());
  if (ranks.empty()) {
    const int64_t base = me - me % size;
    if (base + size > world)
      return bad_ranks(absl::StrCat("a mesh of ", size, " ranks from rank ",
                                    base, " on does not fit into the world"),
                       absl::StrCat("at most ", world, " ranks"));
    members.resize(static_cast<size_t>(size));
    std::iota(members.begin(), members.end(), static_cast<int>(base));
  }
  std::vector<int> sorted = members;
  std::sort(sorted.begin(), sorted.end());
  if (static_cast<int64_t>(members.size()) != size)
    return bad_ranks(absl::StrCat("the mesh has ", size, " places and ",
                                  members.size(), " ranks"),
                     absl::StrCat(size, " ranks"));
  if (std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end() ||
      sorted.front() < 0 || sorted.back() >= world)
    return bad_ranks(absl::StrCat("the ranks [", absl::StrJoin(members, ","),
                                  "] have one twice or outside of the world"),
                     absl::StrCat("ranks from 0 to ", world - 1));
  const auto place = std::find(members.begin(), members.end(), me);
  const int64_t rank = place == members.end() ? -1 : place - members.begin();
  const int64_t per_host = ranks_per_host(members);
  return DeviceMesh(std::make_shared<mesh::MeshState>(shape, std::move(members),
                                                      rank, per_host));
} catch (...) {
  return base::error_of_exception("DeviceMesh");
}

const MeshShape& DeviceMesh::shape() const { return state_->shape(); }
int64_t DeviceMesh::size() const {
  return static_cast<int64_t>(state_->ranks().size());
}
const std::vector<int>& DeviceMesh::ranks() const { return state_->ranks(); }
int64_t DeviceMesh::rank() const { return state_->rank(); }

std::vector<int64_t> DeviceMesh::coordinate() const {
  std::vector<int64_t> coordinate;
  if (rank() < 0) return coordinate;
  const layout::Coordinates at(shape().sizes);
  for (int a = 0; a < at.axes(); ++a) coordinate.push_back(at.of(rank(), a));
  return coordinate;
}

absl::StatusOr<Group> DeviceMesh::group_along(absl::Span<const int> axes) const
    try {
  if (absl::Status status = check_axes(shape(), axes); !status.ok())
    return status;
  if (rank() < 0) return outside();
  std::vector<int> sorted(axes.begin(), axes.end());
  std::sort(sorted.begin(), sorted.end());
  return state_->group(sorted);
} catch (...) {
  return base::error_of_exception("DeviceMesh::group");
}

absl::StatusOr<Group> DeviceMesh::group(
    absl::Span<const absl::string_view> names) const {
  const absl::StatusOr<std::vector<int>> axes = axes_of(shape(), names);
  if (!axes.ok()) return axes.status();
  return group_along(*axes);
}

absl::StatusOr<DeviceMesh> DeviceMesh::along(absl::Span<const int> axes) const
    try {
  if (absl::Status status = check_axes(shape(), axes); !status.ok())
    return status;
  if (rank() < 0) return outside();
  MeshShape part;
  for (const int axis : axes) {
    part.sizes.push_back(shape().sizes[static_cast<size_t>(axis)]);
    if (!shape().names.empty())
      part.names.push_back(shape().names[static_cast<size_t>(axis)]);
  }
  return create(part, members_of(*state_, axes));
} catch (...) {
  return base::error_of_exception("DeviceMesh");
}

absl::StatusOr<DeviceMesh> DeviceMesh::operator[](
    std::initializer_list<absl::string_view> names) const {
  const absl::StatusOr<std::vector<int>> axes =
      axes_of(shape(), absl::MakeConstSpan(names.begin(), names.size()));
  if (!axes.ok()) return axes.status();
  return along(*axes);
}

absl::StatusOr<DeviceMesh> DeviceMesh::flatten(absl::Span<const int> axes,
                                               absl::string_view name) const
    try {
  if (absl::Status status = check_axes(shape(), axes); !status.ok())
    return status;
  if (rank() < 0) return outside();
  std::vector<int> members = members_of(*state_, axes);
  MeshShape line{.sizes = {static_cast<int64_t>(members.size())}};
  if (!name.empty()) line.names.emplace_back(name);
  return create(line, members);
} catch (...) {
  return base::error_of_exception("DeviceMesh");
}

absl::StatusOr<DeviceMesh> DeviceMesh::flatten(
    std::initializer_list<absl::string_view> names,
    absl::string_view name) const {
  const absl::StatusOr<std::vector<int>> axes =
      axes_of(shape(), absl::MakeConstSpan(names.begin(), names.size()));
  if (!axes.ok()) return axes.status();
  return flatten(*axes, name);
}

namespace mesh {

uint64_t MeshState::next_id() {
  static std::atomic<uint64_t> last{0};
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

absl::StatusOr<Group> MeshState::group(const std::vector<int>& axes) {
  std::vector<std::string> names;
  for (const int axis : axes)
    names.push_back(shape_.names.empty()
                        ? absl::StrCat(axis)
                        : shape_.names[static_cast<size_t>(axis)]);
  return group_of(members_of(*this, axes),
                  absl::StrCat("mesh ", absl::StrJoin(names, ",")));
}

absl::StatusOr<Group> MeshState::group_of(const std::vector<int>& ranks,
                                          const std::string& description) {
  Slot* slot = nullptr;
  {
    const base::MutexLock lock(mutex_);
    std::unique_ptr<Slot>& found = groups_[ranks];
    if (found == nullptr) found = std::make_unique<Slot>();
    slot = found.get();
  }
  const base::MutexLock lock(slot->making);
  if (slot->group) return slot->group;
  absl::StatusOr<Group> made = new_group({.ranks = ranks,
                                          .use_local_synchronization = true,
                                          .group_desc = description,
                                          .sort_ranks = false});
  if (!made.ok()) return made.status();
  slot->group = *std::move(made);
  const base::MutexLock growing(mutex_);
  made_.push_back(slot->group);
  return slot->group;
}

absl::StatusOr<Redistribution> MeshState::prepared(
    const MoveKey& key,
    absl::FunctionRef<absl::StatusOr<Redistribution>()> make) {
  if (std::optional<Redistribution> found = prepared_.find(key))
    return *std::move(found);
  absl::StatusOr<Redistribution> made = make();
  if (!made.ok()) return made.status();
  return prepared_.add(key, *std::move(made));
}

}  // namespace mesh
}  // namespace distwrap
