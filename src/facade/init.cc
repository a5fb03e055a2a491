// Start and end of the process group, and the calls that ask for ranks.
#include "base/error.h"
#include "base/exceptions.h"
#include "distwrap/distwrap.h"
#include "facade/binding.h"
#include "group/group_end.h"
#include "group/session_state.h"

#include <absl/strings/str_cat.h>
#include <absl/time/clock.h>
#include <absl/time/time.h>

#include <algorithm>

namespace distwrap {
namespace {

// The most time for work in flight when a group is ended.
constexpr absl::Duration kDrain = absl::Seconds(30);

}  // namespace

absl::StatusOr<Session> init_process_group(const InitOptions& options) try {
  if (const Session kept = facade::session_of_thread();
      kept && kept.state()->is_of_parent()) {
    facade::retract(kept);
    facade::bind({});
  }
  if (facade::thread_is_bound()) {
    const Session first = facade::session_of_thread();
    return base::make_error(
        {.reason = Reason::kAlreadyInitialized,
         .what = absl::StrCat(
             "this thread has had a session since ",
             absl::FormatTime("%H:%M:%S", first.state()->began(),
                              absl::UTCTimeZone()),
             " UTC, for ",
             base::brief_duration(std::max(
                 absl::Milliseconds(1), absl::Now() - first.state()->began()))),
         .op = "init_process_group",
         .group = std::string(first.world().name()),
         .my_rank = first.rank(),
         .group_size = first.world_size(),
         .next_step = "call destroy_process_group before starting again"});
  }
  absl::StatusOr<Session> session = Session::create(options);
  if (!session.ok()) return session;
  facade::announce(*session);
  facade::bind(*session);
  return session;
} catch (...) {
  return base::error_of_exception("init_process_group");
}

absl::Status destroy_process_group(const Group& group) try {
  // A group knows its session, whichever thread asks; that of a group that has
  // ended may be gone.
  const Session session = facade::session_for(group);
  if (!session && !group)
    return facade::not_initialized("destroy_process_group");
  if (!session) return absl::OkStatus();
  if (group && group != session.world()) {
    const auto usable = facade::usable_group(group, "destroy_process_group");
    if (!usable.ok()) return usable.status();
    return group::end_group(*group.state(),
                            Deadline::after(std::min(group.timeout(), kDrain)));
  }
  absl::Status status = session.close();
  facade::retract(session);
  if (facade::session_of_thread() == session) facade::bind({});
  return status;
} catch (...) {
  return base::error_of_exception("destroy_process_group");
}

bool is_initialized() { return facade::current_session() != nullptr; }

void bind_session(const Session& session) { facade::bind(session); }

int get_rank(const Group& group) {
  const group::GroupState* const state = facade::group_of(group);
  return state == nullptr ? -1 : state->rank();
}

int get_world_size(const Group& group) {
  const group::GroupState* const state = facade::group_of(group);
  return state == nullptr ? -1 : state->size();
}

}  // namespace distwrap
