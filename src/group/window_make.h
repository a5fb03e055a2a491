// What all ranks of a group do together for a window: making it, and its end.
#ifndef DISTWRAP_SRC_GROUP_WINDOW_MAKE_H_
#define DISTWRAP_SRC_GROUP_WINDOW_MAKE_H_

#include "comm/window.h"
#include "group/group_state.h"

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <absl/time/time.h>

#include <memory>

namespace distwrap::group {

// On `owner`, a communicator of the group. The terms that ranks have to share
// are compared first. Errors: kCallMismatch, kTimedOut naming the missing,
// those of the backend.
absl::StatusOr<std::shared_ptr<comm::Window>> make_window(
    GroupState& group, comm::BackendCommunicator& owner,
    const comm::Window::Part& part, absl::Duration limit);

// Ends calls, meets the other ranks, gives the backend's part back. OK for a
// window that has ended. What fails on one rank fails on all.
absl::Status destroy_window(GroupState& group, comm::Window& window,
                            absl::Duration limit);

}  // namespace distwrap::group

#endif  // DISTWRAP_SRC_GROUP_WINDOW_MAKE_H_
