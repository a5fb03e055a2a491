// Making groups out of a group.
#ifndef DISTWRAP_SRC_GROUP_GROUP_MAKE_H_
#define DISTWRAP_SRC_GROUP_GROUP_MAKE_H_

#include "distwrap/group_options.h"
#include "group/group_state.h"

#include <absl/status/statusor.h>

#include <cstdint>
#include <memory>

namespace distwrap::group {

// The caller's new group, or null when it is in none. `parent` is what the
// options name. Errors that come before anything is sent: kInvalidArgument,
// kNoCommunicator, those of backend strings, kGroupClosed. Others:
// kCallMismatch, kTimedOut, kRankNotInSplit, those of the backend.
absl::StatusOr<std::shared_ptr<GroupState>> split(GroupState& parent,
                                                  const SplitOptions& options);

// Likewise by colour: `options.split_ranks` is not looked at.
absl::StatusOr<std::shared_ptr<GroupState>> split_by_color(
    GroupState& parent, int64_t color, int64_t key,
    const SplitOptions& options);

// Out of the world.
absl::StatusOr<std::shared_ptr<GroupState>> make_group(
    GroupState& world, const NewGroupOptions& options);

}  // namespace distwrap::group

#endif  // DISTWRAP_SRC_GROUP_GROUP_MAKE_H_
