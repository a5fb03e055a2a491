// Ending a group with all that was split from it.
#ifndef DISTWRAP_SRC_GROUP_GROUP_END_H_
#define DISTWRAP_SRC_GROUP_GROUP_END_H_

#include "distwrap/deadline.h"
#include "group/group_state.h"

#include <absl/status/status.h>
#include <absl/strings/string_view.h>

namespace distwrap::group {

// Drains the groups below it, newest first, then the group; says goodbye to its
// members; gives the backends' parts back, or leaves that to the session when
// some of them do not end it now. What does not end by the deadline is aborted;
// with nothing in flight it takes 100 ms at most, for the world 500 ms,
// whatever the others do. The error is of calls that differ, in any of the
// groups, of which no call has told; they have ended all the same. Does nothing
// for a group that has ended.
absl::Status end_group(GroupState& group, Deadline deadline);

// Aborts the groups below it and the group, and gives everything back at once.
void drop_group(GroupState& group);

// Fails what is in flight and to come in the group and in those below it, on
// all members. Any thread; takes 50 ms at most.
void abort_group(GroupState& group, absl::string_view why);

}  // namespace distwrap::group

#endif  // DISTWRAP_SRC_GROUP_GROUP_END_H_
