#include "facade/binding.h"

#include "base/error.h"
#include "base/exceptions.h"
#include "base/mutex.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

namespace distwrap::facade {
namespace {

struct Announced {
  base::Mutex mutex;
  std::vector<Session> sessions ABSL_GUARDED_BY(mutex);
};

Announced& announced() {
  static Announced* const kAnnounced = new Announced;  // outlives threads
  return *kAnnounced;
}

// The session behind the thread's answer.
thread_local Session bound;
thread_local Session adopted;

}  // namespace

constinit thread_local ThreadAnswer thread_answer;
std::atomic<uint64_t> session_generation{1};

group::SessionState* look_for_session() {
  thread_answer.session = nullptr;
  // Read before the search, so that a session that is announced meanwhile
  // triggers another search.
  thread_answer.generation = session_generation.load(std::memory_order_acquire);
  adopted = {};
  if (bound) {
    thread_answer.session = bound.state().get();
  } else {
    base::MutexLock lock(announced().mutex);
    if (announced().sessions.size() == 1) {
      adopted = announced().sessions.front();
      thread_answer.session = adopted.state().get();
    }
  }
  return thread_answer.session;
}

Session session_of_thread() {
  if (bound) return bound;
  current_session();
  return adopted;
}

Session session_for(const Group& group) {
  if (group && group.state()->session() != nullptr)
    return Session(group.state()->session());
  return session_of_thread();
}

bool thread_is_bound() { return static_cast<bool>(bound); }

void bind(const Session& session) {
  bound = session;
  look_for_session();
}

void announce(const Session& session) {
  base::MutexLock lock(announced().mutex);
  announced().sessions.push_back(session);
  session_generation.fetch_add(1, std::memory_order_acq_rel);
}

void retract(const Session& session) {
  base::MutexLock lock(announced().mutex);
  std::vector<Session>& sessions = announced().sessions;
  sessions.erase(std::remove(sessions.begin(), sessions.end(), session),
                 sessions.end());
  session_generation.fetch_add(1, std::memory_order_acq_rel);
}

absl::Status not_initialized(absl::string_view call) try {
  return base::make_error(
      {.reason = Reason::kNotInitialized,
       .what = absl::StrCat(call, " called before init_process_group"),
       .op = std::string(call),
       .next_step = "call init_process_group first, or bind_session in this "
                    "thread when the process has several sessions"});
} catch (...) {
  return base::error_of_exception(call);
}

absl::StatusOr<std::shared_ptr<group::GroupState>> group_for(
    const Group& group, absl::string_view call) {
  if (group) return group.state();
  const Session session = session_of_thread();
  if (!session) return not_initialized(call);
  return session.state()->world();
}

absl::StatusOr<std::shared_ptr<group::GroupState>> usable_group(
    const Group& group, absl::string_view call) {
  auto found = group_for(group, call);
  if (!found.ok() || !(*found)->is_of_parent()) return found;
  ErrorInfo info = base::of_parent("the group");
  info.op = std::string(call);
  info.group = (*found)->name();
  info.my_rank = (*found)->rank();
  info.group_size = (*found)->size();
  return base::make_error(info);
}

}  // namespace distwrap::facade
