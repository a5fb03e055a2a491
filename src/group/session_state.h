// What stands behind a Session handle: everything that one rank owns.
//
// Start-up in order: arguments and environment, store, hello of all ranks,
// backend, world group. What fails undoes what was done, in reverse order.
// Threads: any, after `create`.
#ifndef DISTWRAP_SRC_GROUP_SESSION_STATE_H_
#define DISTWRAP_SRC_GROUP_SESSION_STATE_H_

#include "base/mutex.h"
#include "base/settings.h"
#include "comm/watchdog.h"
#include "distwrap/session.h"
#include "group/group_state.h"
#include "plugin/allow_list.h"

#include <atomic>
#include <memory>
#include <string>

namespace distwrap::group {

// InitOptions with nothing left to look up.
struct SessionPlan {
  int rank = 0, world_size = 1;
  std::string backend;
  std::shared_ptr<Store> store;  // null: connect to store_address
  std::string store_address;
  std::string job_id;
  absl::Duration timeout, init_timeout;
  std::string group_name;
  comm::Hints hints = {};
  std::vector<std::string> plugin_folders;
  plugin::AllowList allowed_plugins = {};
};

// Explicit options first, then the environment, then defaults.
absl::StatusOr<SessionPlan> plan_session(const InitOptions& options,
                                         const base::Environment& environment);

class SessionState {
 public:
  static absl::StatusOr<std::shared_ptr<SessionState>> create(
      const SessionPlan& plan);
  ~SessionState();
  SessionState(const SessionState&) = delete;
  SessionState& operator=(const SessionState&) = delete;

  int rank() const { return rank_; }
  int world_size() const { return world_size_; }
  const std::shared_ptr<GroupState>& world() const { return world_; }
  bool closed() const { return closed_.load(std::memory_order_acquire); }

  absl::Status close(absl::Duration timeout);

 private:
  explicit SessionState(const SessionPlan& plan);
  absl::Status start(const SessionPlan& plan);
  absl::Status say_hello(const SessionPlan& plan, const std::string& backend,
                         Deadline deadline);
  absl::Status make_world(const SessionPlan& plan,
                          const plugin::BackendPtr& table, Deadline deadline);
  // Lets peers finish reading before connections end; bounded, never fails.
  void say_goodbye(Deadline deadline);

  const int rank_;
  const int world_size_;
  int64_t generation_ = 0;  // of this rank's sessions on the store
  std::shared_ptr<Store> store_;
  comm::Watchdog watchdog_;
  std::shared_ptr<GroupState> world_;
  std::atomic<bool> closed_{false};
  base::Mutex closing_;
};

}  // namespace distwrap::group

#endif  // DISTWRAP_SRC_GROUP_SESSION_STATE_H_
