// Making a group whose members agree on what it is: one communicator for each
// device of its backend string.
#ifndef DISTWRAP_SRC_GROUP_GROUP_BUILD_H_
#define DISTWRAP_SRC_GROUP_GROUP_BUILD_H_

#include "comm/watchdog.h"
#include "group/backend_string.h"
#include "group/board_call.h"
#include "group/group_state.h"
#include "group/instances.h"

#include <absl/status/statusor.h>

#include <memory>
#include <string>
#include <vector>

namespace distwrap::group {

struct GroupPlan {
  std::string op;  // the call, for messages
  // `channels` is empty.
  GroupParts parts;
  // Index of the devices that are no host memory.
  int device_id = 0;
  // Of the choices; opened for it where there are none.
  std::vector<std::shared_ptr<comm::BackendInstance>> backends = {};
  // In which it is built; without one it is over the store.
  BoardCall* call = nullptr;
  std::vector<int> parent_ranks = {};  // its ranks as those of the parent
};

// Collective over the members. Every communicator exists afterwards on all of
// them or on none. Errors: kCallMismatch when the members differ in their
// backends, kTimedOut naming the missing, those of the backend.
absl::StatusOr<std::shared_ptr<GroupState>> build_group(
    GroupPlan plan, Instances& instances,
    const std::shared_ptr<comm::Watchdog>& watchdog, Deadline deadline);

// Where its first communicator is built, for a rank that gives up before.
std::string first_channel_keys(const std::string& key_prefix);

}  // namespace distwrap::group

#endif  // DISTWRAP_SRC_GROUP_GROUP_BUILD_H_
