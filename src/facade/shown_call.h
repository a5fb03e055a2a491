// A call of the facade that is no operation of a communicator, but is shown to
// the group's hooks.
#ifndef DISTWRAP_SRC_FACADE_SHOWN_CALL_H_
#define DISTWRAP_SRC_FACADE_SHOWN_CALL_H_

#include "base/error.h"
#include "comm/hooks.h"
#include "group/group_state.h"

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <memory>

namespace distwrap::facade {

inline const absl::Status& status_of(const absl::Status& status) {
  return status;
}
template <class T>
const absl::Status& status_of(const absl::StatusOr<T>& result) {
  return result.status();
}

// Runs `body()`, whose inner calls are hidden from hooks. `describe(call)`
// fills in the HookedCall; `refuse(info)` tells the other ranks that a hook has
// refused the call.
template <class Describe, class Refuse, class Body>
auto shown(const group::GroupState& group, const Describe& describe,
           const Refuse& refuse, const Body& body) -> decltype(body()) {
  if (!group.hooks()->wanted()) return body();
  const auto run = std::make_shared<comm::HookRun>(group.hooks());
  describe(run->call());
  if (absl::Status refused = run->pre(); !refused.ok()) {
    const ErrorInfo info = run->refusal(refused);
    refuse(info);
    absl::Status error = base::make_error(info);
    run->post(error);
    return error;
  }
  auto result = [&] {
    const comm::HookList::Hidden hidden;
    return body();
  }();
  run->post(status_of(result));
  return result;
}

// Breaks the group of a call on host memory.
inline void break_group(const group::GroupState& group, const ErrorInfo& why) {
  for (const group::Channel& channel : group.channels())
    channel.communicator->refused_by_hook(why);
}

}  // namespace distwrap::facade

#endif  // DISTWRAP_SRC_FACADE_SHOWN_CALL_H_
