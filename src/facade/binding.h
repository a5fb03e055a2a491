// Which session a facade call of this thread means: the one bound to the
// thread, else the only one that the process has started.
//
// The answer is kept in the thread and holds a reference, so that a call pays
// one load and one compare; sessions that come and go make every thread look
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
// Moves with every start and end of a session; begins at 1.
extern std::atomic<uint64_t> session_generation;

group::SessionState* look_for_session();

// The session of this thread; null when there is none.
inline group::SessionState* current_session() {
  if (thread_answer.generation ==
      session_generation.load(std::memory_order_acquire)) [[likely]]
    return thread_answer.session;
  return look_for_session();
}

// The group a call means: the one in its options, else the session's world.
// Null when there is neither.
inline group::GroupState* group_of(const Group& group) {
  if (group) return group.state().get();
  group::SessionState* const session = current_session();
  return session == nullptr ? nullptr : session->world().get();
}

// The same, kept whatever other threads end meanwhile.
inline std::shared_ptr<group::GroupState> kept_group_of(const Group& group) {
  if (group) return group.state();
  group::SessionState* const session = current_session();
  return session == nullptr ? nullptr : session->world();
}

// Of this thread, bound or the process's only one; empty without.
Session session_of_thread();
bool thread_is_bound();
void bind(const Session& session);

// A session starts or ends to count for threads that are not bound.
void announce(const Session& session);
void retract(const Session& session);

// The error of a call without a session.
absl::Status not_initialized(absl::string_view call);

// The group that `call` means, held while the call lasts.
absl::StatusOr<std::shared_ptr<group::GroupState>> group_for(
    const Group& group, absl::string_view call);
// Likewise, unless this is the child of a fork, which has the group's memory
// only.
absl::StatusOr<std::shared_ptr<group::GroupState>> usable_group(
    const Group& group, absl::string_view call);

}  // namespace distwrap::facade

#endif  // DISTWRAP_SRC_FACADE_BINDING_H_
