// The state of a DeviceMesh: ranks, groups, and prepared redistributions.
//
// Threads: any; a mutex guards what grows. Ownership: counted.
#ifndef DISTWRAP_SRC_MESH_MESH_STATE_H_
#define DISTWRAP_SRC_MESH_MESH_STATE_H_

#include "base/mutex.h"
#include "base/read_mostly_map.h"
#include "distwrap/mesh.h"
#include "distwrap/redistribute.h"
#include "mesh/in_order.h"

#include <absl/container/inlined_vector.h>
#include <absl/functional/function_ref.h>
#include <absl/status/statusor.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace distwrap::mesh {

// The key by which redistributions on one mesh differ. Layouts are interned, so
// their addresses do.
struct MoveKey {
  const Layout* from;
  const Layout* to;
  // The id of another mesh, to which the redistribution leads, or 0.
  uint64_t to_mesh;
  DType dtype;
  PlanMode mode;
  int64_t cap_bytes;
  std::optional<DType> wire_dtype;
  // 0 for a single tensor, whose shape follows. Several are a number, and the
  // number of dimensions before the shape of each.
  size_t tensors = 0;
  absl::InlinedVector<int64_t, 6> shape;
  friend bool operator==(const MoveKey&, const MoveKey&) = default;
  template <class H>
  friend H AbslHashValue(H hash, const MoveKey& key) {
    return H::combine(std::move(hash), key.from, key.to, key.to_mesh, key.dtype,
                      key.mode, key.cap_bytes, key.wire_dtype, key.tensors,
                      key.shape);
  }
};

class MeshState {
 public:
  MeshState(MeshShape shape, std::vector<int> ranks, int64_t rank,
            int64_t ranks_per_host)
      : shape_(std::move(shape)),
        ranks_(std::move(ranks)),
        rank_(rank),
        ranks_per_host_(ranks_per_host) {}

  const MeshShape& shape() const { return shape_; }
  const std::vector<int>& ranks() const { return ranks_; }
  int64_t rank() const { return rank_; }
  // As in PlanOptions; 0 also where hosts have different numbers of ranks.
  int64_t ranks_per_host() const { return ranks_per_host_; }
  // A number that no other mesh of this process has had.
  uint64_t id() const { return id_; }
  const std::shared_ptr<InOrder>& in_order() const { return in_order_; }

  // The group along these axes, ascending; made at first use.
  absl::StatusOr<Group> group(const std::vector<int>& axes);
  // The group of these ranks of the world, in this order; made at first use, by
  // its members alone.
  absl::StatusOr<Group> group_of(const std::vector<int>& ranks,
                                 const std::string& description);

  // By which its redistributions are planned.
  PlanPrices prices() const {
    const base::MutexLock lock(mutex_);
    return prices_;
  }
  void set_prices(const PlanPrices& prices) {
    const base::MutexLock lock(mutex_);
    prices_ = prices;
  }

  // All groups of the mesh that this rank has made.
  std::vector<Group> groups() const {
    const base::MutexLock lock(mutex_);
    return made_;
  }

  // The redistribution that was prepared under this key, or what `make` gives.
  absl::StatusOr<Redistribution> prepared(
      const MoveKey& key,
      absl::FunctionRef<absl::StatusOr<Redistribution>()> make);

 private:
  static uint64_t next_id();

  const MeshShape shape_;
  const std::vector<int> ranks_;
  const int64_t rank_;
  const int64_t ranks_per_host_;
  const uint64_t id_ = next_id();
  const std::shared_ptr<InOrder> in_order_ = InOrder::make();
  // One thread makes a group, and others that want the same one wait for it.
  // Threads that make other groups go on beside it.
  struct Slot {
    base::Mutex making;
    Group group ABSL_GUARDED_BY(making);
  };
  mutable base::Mutex mutex_;
  PlanPrices prices_ ABSL_GUARDED_BY(mutex_);
  std::vector<Group> made_ ABSL_GUARDED_BY(mutex_);
  std::map<std::vector<int>, std::unique_ptr<Slot>> groups_
      ABSL_GUARDED_BY(mutex_);
  base::ReadMostlyMap<MoveKey, Redistribution, 256> prepared_;
};

}  // namespace distwrap::mesh

#endif  // DISTWRAP_SRC_MESH_MESH_STATE_H_
