#include "distwrap/group.h"

#include "base/error.h"
#include "group/group_state.h"

namespace distwrap {

absl::string_view Group::name() const { return state_->name(); }
int Group::rank() const { return state_->rank(); }
int Group::size() const { return state_->size(); }
const std::vector<int>& Group::global_ranks() const {
  return state_->global_ranks();
}

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

absl::StatusOr<Communicator*> Group::communicator(Device device) const {
  if (state_ == nullptr)
    return base::make_error(
        {.reason = Reason::kNotInitialized,
         .what = "this is no group: the rank is outside of it",
         .next_step = "test the handle before using it"});
  if (Communicator* found = state_->find(device)) return found;
  return state_->no_communicator(device);
}

}  // namespace distwrap
