// Builds a group whose members agree on its parameters: one communicator for
// each device of its backend string.
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
  std::string op;  // name of the call, for messages
  // Precondition: `channels` is empty.
  GroupParts parts;
  // The index of devices other than host memory.
  int device_id = 0;
  // The backends of the choices; opened here where they are missing.
  std::vector<std::shared_ptr<comm::BackendInstance>> backends = {};
  // The call in which the group is built; without one the store serves.
  BoardCall* call = nullptr;
  std::vector<int> parent_ranks = {};  // the members as ranks of the parent
  // Whether every rank of the parent makes a group by the call.
  bool all_of_parent = false;
};

// Collective over the members. Afterwards all members have all communicators,
// or no member has any. Errors: kCallMismatch when the members' backends
// differ, kTimedOut with the missing ranks, those of the backend.
absl::StatusOr<std::shared_ptr<GroupState>> build_group(
    GroupPlan plan, Instances& instances,
    const std::shared_ptr<comm::Watchdog>& watchdog, Deadline deadline);

// The keys of the first communicator, for a rank that gives up before building
// it.
std::string first_channel_keys(const std::string& key_prefix);

}  // namespace distwrap::group

#endif  // DISTWRAP_SRC_GROUP_GROUP_BUILD_H_
