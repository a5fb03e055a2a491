// A named, ordered set of ranks that communicate.
//
// Threads: any method from any thread.
// Ownership: a counted handle; copies name the same group. Its Session closes
// the group even when handles remain; calls on them then end with
// kGroupClosed.
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

// The backend that serves a device type, for example {"cuda", "nccl"}.
struct DeviceBackend {
  std::string device, backend;
  friend bool operator==(const DeviceBackend&, const DeviceBackend&) = default;
};

class DISTWRAP_EXPORT Group {
 public:
  // No group, as a rank outside of a new group gets it.
  Group() = default;
  explicit Group(std::shared_ptr<group::GroupState> state)
      : state_(std::move(state)) {}

  explicit operator bool() const { return state_ != nullptr; }
  friend bool operator==(const Group&, const Group&) = default;

  // The next five need a group that exists. `rank` is this rank's number in the
  // group; `global_ranks` lists, by rank of the group, ranks of the world, and
  // `host_of` the numbers of their hosts: ranks with equal numbers share one. A
  // host has the same number in all groups of a session; rank 0 of the world is
  // on host 0.
  absl::string_view name() const;
  int rank() const;
  int size() const;
  const std::vector<int>& global_ranks() const;
  const std::vector<int32_t>& host_of() const;
  // The rank in the group of a rank of the world; -1 for a rank that is no
  // member.
  int group_rank(int global_rank) const;
  // The caller's own description of the group; several groups may share it.
  const std::string& description() const;
  // A number that is equal on all members and names no other group of the job.
  uint64_t uid() const;
  // The backends in the order and spelling of the backend string.
  const std::vector<DeviceBackend>& device_backends() const;
  // The time limit of operations whose options give none.
  absl::Duration timeout() const;
  // The group from which this one was split. Empty for the world, and when the
  // parent has ended.
  Group parent() const;
  // The living groups that were split from this one, in order of creation.
  std::vector<Group> children() const;

  // The communicator for memory of this device type, valid as long as this
  // handle. kNoCommunicator when the group has none for it, kGroupClosed after
  // the end of the Session.
  absl::StatusOr<Communicator*> communicator(Device device = kCpu) const;

  const std::shared_ptr<group::GroupState>& state() const { return state_; }

 private:
  std::shared_ptr<group::GroupState> state_;
};

}  // namespace distwrap

#endif  // DISTWRAP_GROUP_H_
