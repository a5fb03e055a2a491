// Finds the session of a facade call: the session that is bound to the thread,
// or else the only session that the process has started.
//
// The thread caches the answer with a reference, so a call pays one load and
// one comparison. A session that starts or ends makes every thread search
// again.
// Threads: any.
#ifndef DISTWRAP_SRC_FACADE_BINDING_H_
#define DISTWRAP_SRC_FACADE_BINDING_H_

#include "distwrap/distwrap.h"
#include "group/session_state.h"

#include <atomic>
#include <cstdint>
#include <memory>

namespace distwrap::facade {

struct ThreadAnswer {
  group::SessionState* session = nullptr;
  uint64_t generation = 0;
};

[[gnu::tls_model(
    "initial-exec")]] extern constinit thread_local ThreadAnswer thread_answer;
// Incremented when a session starts or ends; begins at 1.
extern std::atomic<uint64_t> session_generation;

group::SessionState* look_for_session();

// The session of this thread; null when there is none.
inline group::SessionState* current_session() {
  if (thread_answer.generation ==
      session_generation.load(std::memory_order_acquire)) [[likely]]
    return thread_answer.session;
  return look_for_session();
}

// The group of a call: the one in its options, or else the session's world.
// Null when there is neither.
inline group::GroupState* group_of(const Group& group) {
  if (group) return group.state().get();
  group::SessionState* const session = current_session();
  return session == nullptr ? nullptr : session->world().get();
}

// The group of a call with a reference, so that it stays alive when other
// threads end it.
inline std::shared_ptr<group::GroupState> kept_group_of(const Group& group) {
  if (group) return group.state();
  group::SessionState* const session = current_session();
  return session == nullptr ? nullptr : session->world();
}

// The session of this thread, bound or the only one of the process; empty when
// there is none.
Session session_of_thread();
// The session that made `group`; for no group and for a group whose session is
// gone, the session of this thread.
Session session_for(const Group& group);
bool thread_is_bound();
void bind(const Session& session);

// Announces the start and the end of a session to threads without a bound
// session.
void announce(const Session& session);
void retract(const Session& session);

// The error of a call without a session.
absl::Status not_initialized(absl::string_view call);

// The group of `call`, which stays alive during the call.
absl::StatusOr<std::shared_ptr<group::GroupState>> group_for(
    const Group& group, absl::string_view call);
// The group of `call`; an error in the child of a fork, which has only the
// group's memory.
absl::StatusOr<std::shared_ptr<group::GroupState>> usable_group(
    const Group& group, absl::string_view call);

}  // namespace distwrap::facade

#endif  // DISTWRAP_SRC_FACADE_BINDING_H_
