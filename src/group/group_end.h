// Ends a group with all groups that were split from it.
#ifndef DISTWRAP_SRC_GROUP_GROUP_END_H_
#define DISTWRAP_SRC_GROUP_GROUP_END_H_

#include "distwrap/deadline.h"
#include "group/group_state.h"

#include <absl/status/status.h>
#include <absl/strings/string_view.h>

namespace distwrap::group {

// Waits for work in flight in the groups below, newest first, and then in the
// group; enters the close barrier; and destroys the communicators, or defers
// that when some members do not end the group now. Operations that have not
// ended by the deadline are aborted. Without operations in flight it takes 100
// ms at most, for the world 500 ms, whatever other ranks do; a backend may take
// until the deadline, as NCCL does while a captured graph is left. Returns a
// call mismatch in any of the groups that no call has reported, else what keeps
// a backend's communicator from ending; the groups have ended nevertheless.
// Does nothing for a group that has ended.
absl::Status end_group(GroupState& group, Deadline deadline);

// Aborts the group and the groups below it, and destroys their communicators at
// once.
void drop_group(GroupState& group);

// Fails all present and future operations of the group and of the groups below
// it, on all members. Any thread; takes 50 ms at most.
void abort_group(GroupState& group, absl::string_view why);

}  // namespace distwrap::group

#endif  // DISTWRAP_SRC_GROUP_GROUP_END_H_
