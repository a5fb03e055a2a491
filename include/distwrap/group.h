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

#include <memory>
#include <string>
#include <vector>

namespace distwrap {

namespace group {
class GroupState;
}

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

  // For memory of this kind; kNoCommunicator when the group has none,
  // kGroupClosed after the end of its Session. Valid as long as the handle.
  absl::StatusOr<Communicator*> communicator(Device device = kCpu) const;

  const std::shared_ptr<group::GroupState>& state() const { return state_; }

 private:
  std::shared_ptr<group::GroupState> state_;
};

}  // namespace distwrap

#endif  // DISTWRAP_GROUP_H_
