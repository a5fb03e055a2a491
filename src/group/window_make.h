// The collective steps of a window: its creation and its end.
#ifndef DISTWRAP_SRC_GROUP_WINDOW_MAKE_H_
#define DISTWRAP_SRC_GROUP_WINDOW_MAKE_H_

#include "comm/window.h"
#include "group/group_state.h"

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <absl/time/time.h>

#include <memory>

namespace distwrap::group {

// Makes a window on `owner`, a communicator of the group. First compares the
// parameters that all ranks must share. Errors: kCallMismatch, kTimedOut with
// the missing ranks, those of the backend.
absl::StatusOr<std::shared_ptr<comm::Window>> make_window(
    GroupState& group, comm::BackendCommunicator& owner,
    const comm::Window::OwnPart& part, absl::Duration limit);

// Ends this rank's calls, meets the other ranks and destroys the backend's
// window. OK for a window that has ended. It fails on all ranks or on none.
absl::Status destroy_window(GroupState& group, comm::Window& window,
                            absl::Duration limit);

}  // namespace distwrap::group

#endif  // DISTWRAP_SRC_GROUP_WINDOW_MAKE_H_
