// A mesh of ranks with named axes, and the groups along them.
//
// Threads: any. Ownership: a counted handle. Its groups are made at first use,
// by their members alone, and end with the session.
//
//   auto mesh = distwrap::DeviceMesh::create({.sizes = {2, 4},
//                                             .names = {"dp", "tp"}});
//   auto tp = mesh->group({"tp"});
//   distwrap::all_reduce(x, distwrap::ReduceOp::kSum, {.group = *tp});
#ifndef DISTWRAP_MESH_H_
#define DISTWRAP_MESH_H_

#include "distwrap/export.h"
#include "distwrap/group.h"
#include "distwrap/layout.h"
#include "distwrap/plan.h"

#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>
#include <absl/time/time.h>
#include <absl/types/span.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace distwrap {

namespace mesh {
class MeshState;
}

class DISTWRAP_EXPORT DeviceMesh {
 public:
  DeviceMesh() = default;

  // The mesh of these ranks of the world, row-major, the last axis fastest.
  // Without ranks: the block of consecutive ranks that has this rank, so that a
  // larger world holds several equal meshes. Local: nothing is sent. A rank
  // outside of the mesh gets a mesh without a coordinate.
  // kMeshShape: impossible sizes or names, another number of ranks than the
  // mesh has, a rank twice or outside of the world. kNotInitialized.
  static absl::StatusOr<DeviceMesh> create(const MeshShape& shape,
                                           absl::Span<const int> ranks = {});

  explicit operator bool() const { return state_ != nullptr; }
  friend bool operator==(const DeviceMesh&, const DeviceMesh&) = default;

  // The rest needs a mesh that exists.
  const MeshShape& shape() const;
  int64_t size() const;
  // The ranks of the world, row-major.
  const std::vector<int>& ranks() const;
  // This rank's place in the mesh; -1 outside of it.
  int64_t rank() const;
  // This rank's number along each axis; empty outside of the mesh.
  std::vector<int64_t> coordinate() const;

  // The group of the ranks that differ from this one at most along these axes,
  // in the order of the mesh. Its members alone call at first use; later calls
  // are local. kPlacement: an axis that does not exist or is named twice.
  // kMeshMismatch: outside of the mesh.
  absl::StatusOr<Group> group_along(absl::Span<const int> axes) const;
  absl::StatusOr<Group> group(absl::Span<const absl::string_view> names) const;
  absl::StatusOr<Group> group(
      std::initializer_list<absl::string_view> names) const {
    return group(absl::MakeConstSpan(names.begin(), names.size()));
  }
  // The mesh of these axes, in this order, that has this rank. Errors: as
  // group.
  absl::StatusOr<DeviceMesh> along(absl::Span<const int> axes) const;
  absl::StatusOr<DeviceMesh> operator[](
      std::initializer_list<absl::string_view> names) const;

  // The mesh of one axis, of the ranks that differ from this one at most along
  // these axes, row-major. Errors: as group.
  absl::StatusOr<DeviceMesh> flatten(absl::Span<const int> axes,
                                     absl::string_view name = "") const;
  absl::StatusOr<DeviceMesh> flatten(
      std::initializer_list<absl::string_view> names,
      absl::string_view name = "") const;

  // Measures what collectives cost here, for about `limit`, and gives the
  // redistributions of this mesh that are planned from now on these prices. All
  // ranks of the mesh call. The first figures of a job stay in its store: a
  // later call, also on another mesh, gets them without measuring, so that all
  // ranks plan by the same ones. What cannot be measured, such as the network
  // where all ranks share a host, keeps its built-in price.
  // kMeshShape: a mesh of one rank. kMeshMismatch: outside of the mesh.
  // kInvalidArgument: a limit that is not positive.
  absl::StatusOr<PlanPrices> measure_prices(
      absl::Duration limit = absl::Seconds(1)) const;

  const std::shared_ptr<mesh::MeshState>& state() const { return state_; }

 private:
  explicit DeviceMesh(std::shared_ptr<mesh::MeshState> state)
      : state_(std::move(state)) {}
  std::shared_ptr<mesh::MeshState> state_;
};

}  // namespace distwrap

#endif  // DISTWRAP_MESH_H_
