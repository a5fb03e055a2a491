// Makes groups from a group.
#ifndef DISTWRAP_SRC_GROUP_GROUP_MAKE_H_
#define DISTWRAP_SRC_GROUP_GROUP_MAKE_H_

#include "distwrap/group_options.h"
#include "group/group_state.h"

#include <absl/status/statusor.h>

#include <cstdint>
#include <memory>

namespace distwrap::group {

// The caller's new group, or null when the caller is in none. `parent` is the
// group that the options name. Errors before anything is sent:
// kInvalidArgument, kNoCommunicator, those of backend strings, kGroupClosed.
// Later errors: kCallMismatch, kTimedOut, kRankNotInSplit, those of the
// backend.
absl::StatusOr<std::shared_ptr<GroupState>> split(GroupState& parent,
                                                  const SplitOptions& options);

// Splits by colour; ignores `options.split_ranks`.
absl::StatusOr<std::shared_ptr<GroupState>> split_by_color(
    GroupState& parent, int64_t color, int64_t key,
    const SplitOptions& options);

// Makes a group of ranks of the world.
absl::StatusOr<std::shared_ptr<GroupState>> make_group(
    GroupState& world, const NewGroupOptions& options);

}  // namespace distwrap::group

#endif  // DISTWRAP_SRC_GROUP_GROUP_MAKE_H_
