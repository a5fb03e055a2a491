#include "distwrap/session.h"

#include "group/session_state.h"

namespace distwrap {

absl::StatusOr<Session> Session::create(const InitOptions& options) {
  absl::StatusOr<group::SessionPlan> plan =
      group::plan_session(options, base::Environment::of_process());
  if (!plan.ok()) return plan.status();
  absl::StatusOr<std::shared_ptr<group::SessionState>> state =
      group::SessionState::create(*plan);
  if (!state.ok()) return state.status();
  return Session(*std::move(state));
}

int Session::rank() const { return state_->rank(); }
int Session::world_size() const { return state_->world_size(); }
Group Session::world() const { return Group(state_->world()); }

absl::Status Session::close(absl::Duration timeout) const {
  return state_ == nullptr ? absl::OkStatus() : state_->close(timeout);
}

}  // namespace distwrap
