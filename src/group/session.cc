#include "distwrap/session.h"

#include "base/error.h"
#include "base/exceptions.h"
#include "base/one_library.h"
#include "group/session_state.h"

namespace distwrap {

absl::StatusOr<Session> Session::create(const InitOptions& options) try {
  if (absl::Status alone = base::check_one_library(); !alone.ok()) return alone;
  const base::Environment environment = base::Environment::of_process();
  absl::StatusOr<group::SessionPlan> plan =
      group::plan_session(options, environment);
  if (!plan.ok()) return plan.status();
  // After the plan, which sets the level of the log.
  base::warn_of_unknown_settings(environment);
  absl::StatusOr<std::shared_ptr<group::SessionState>> state =
      group::SessionState::create(*plan);
  if (!state.ok()) return state.status();
  return Session(*std::move(state));
} catch (...) {
  return base::error_of_exception("init");
}

int Session::rank() const { return state_->rank(); }
int Session::world_size() const { return state_->world_size(); }
GroupRegistry& Session::registry() const { return state_->registry(); }
Group Session::world() const { return Group(state_->world()); }
std::shared_ptr<Store> Session::store() const {
  return state_ == nullptr ? nullptr : state_->store();
}

absl::StatusOr<std::string> Session::save_recording() const try {
  if (state_ == nullptr)
    return base::make_error({.reason = Reason::kNotInitialized,
                             .what = "there is no session",
                             .op = "save_recording",
                             .next_step = "create one first"});
  if (state_->recording() == nullptr)
    return base::make_error({.reason = Reason::kUnsupported,
                             .what = "operations are not recorded",
                             .op = "save_recording",
                             .next_step = "unset DISTWRAP_RECORDER"});
  return state_->recording()->save("asked");
} catch (...) {
  return base::error_of_exception("save_recording");
}

absl::Status Session::close(absl::Duration timeout) const try {
  return state_ == nullptr ? absl::OkStatus() : state_->close(timeout);
} catch (...) {
  return base::error_of_exception("close");
}

}  // namespace distwrap
