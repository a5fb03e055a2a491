#include "distwrap/group.h"

#include "base/error.h"
#include "group/group_state.h"

#include <absl/strings/str_cat.h>

namespace distwrap {

absl::string_view Group::name() const { return state_->name(); }
int Group::rank() const { return state_->rank(); }
int Group::size() const { return state_->size(); }
const std::vector<int>& Group::global_ranks() const {
  return state_->global_ranks();
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

namespace group {

absl::Status GroupState::no_communicator(Device device) const {
  return base::make_error(
      {.reason = Reason::kNoCommunicator,
       .what = absl::StrCat("the group has no communicator for device type ",
                            device.type, ". Available: ", device_type_),
       .group = name_,
       .my_rank = rank_,
       .group_size = size(),
       .next_step = "move the tensor, or name a backend for that device"});
}

}  // namespace group
}  // namespace distwrap
