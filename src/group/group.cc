#include "distwrap/group.h"

#include "base/error.h"
#include "base/exceptions.h"
#include "group/group_state.h"

namespace distwrap {

absl::string_view Group::name() const { return state_->name(); }
int Group::rank() const { return state_->rank(); }
int Group::size() const { return state_->size(); }
const std::vector<int>& Group::global_ranks() const {
  return state_->global_ranks();
}
const std::vector<int32_t>& Group::host_of() const { return state_->host_of(); }

int Group::group_rank(int global_rank) const {
  return state_->group_rank(global_rank);
}
const std::string& Group::description() const { return state_->description(); }
uint64_t Group::uid() const { return state_->uid(); }
const std::vector<DeviceBackend>& Group::device_backends() const {
  return state_->device_backends();
}
absl::Duration Group::timeout() const { return state_->timeout(); }
Group Group::parent() const { return Group(state_->parent()); }

std::vector<Group> Group::children() const {
  std::vector<Group> handles;
  for (const auto& child : state_->children()) handles.emplace_back(child);
  return handles;
}

absl::StatusOr<Communicator*> Group::communicator(Device device) const try {
  if (state_ == nullptr)
    return base::make_error(
        {.reason = Reason::kNotInitialized,
         .what = "the handle names no group: this rank is not a member",
         .next_step = "test the handle before using it"});
  if (Communicator* found = state_->find(device)) return found;
  return state_->no_communicator(device);
} catch (...) {
  return base::error_of_exception("communicator");
}

}  // namespace distwrap
