// A named, ordered set of ranks that communicate.
//
// Threads: any method from any thread.
// Ownership: a counted handle; copies name the same group. The group is closed
// by its Session, whatever handles exist: then calls end with kGroupClosed.
//
//   distwrap::Group world = session.world();
//   world.name();  // "world"
#ifndef DISTWRAP_GROUP_H_
#define DISTWRAP_GROUP_H_

#include "distwrap/communicator.h"
#include "distwrap/export.h"

#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>
#include <absl/time/time.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace distwrap {

namespace group {
class GroupState;
}

// "cuda" and "nccl": which backend serves a device type.
struct DeviceBackend {
  std::string device, backend;
  friend bool operator==(const DeviceBackend&, const DeviceBackend&) = default;
};

class DISTWRAP_EXPORT Group {
 public:
  // No group: what a rank outside gets.
  Group() = default;
  explicit Group(std::shared_ptr<group::GroupState> state)
      : state_(std::move(state)) {}

  explicit operator bool() const { return state_ != nullptr; }
  friend bool operator==(const Group&, const Group&) = default;

  // Of a group that exists. rank: mine, in the group. global_ranks: by rank of
  // the group, ranks of the world.
  absl::string_view name() const;
  int rank() const;
  int size() const;
  const std::vector<int>& global_ranks() const;
  // Rank in the group of a rank of the world; -1 when it is not a member.
  int group_rank(int global_rank) const;
  // What the caller called it; equal groups may share it.
  const std::string& description() const;
  // Equal on all members, of no other group of the job.
  uint64_t uid() const;
  // In the order of the backend string, spelled as there.
  const std::vector<DeviceBackend>& device_backends() const;
  // Limit of operations that give none.
  absl::Duration timeout() const;
  // The group that it was split from; none for the world, and for one whose
  // parent is gone.
  Group parent() const;
  // Those that live, in the order of their making.
  std::vector<Group> children() const;

  // For memory of this kind; kNoCommunicator when the group has none,
  // kGroupClosed after the end of its Session. Valid as long as the handle.
  absl::StatusOr<Communicator*> communicator(Device device = kCpu) const;

  const std::shared_ptr<group::GroupState>& state() const { return state_; }

 private:
  std::shared_ptr<group::GroupState> state_;
};

}  // namespace distwrap

#endif  // DISTWRAP_GROUP_H_
