// What stands behind a Session handle: everything that one rank owns.
//
// Start-up in order: arguments and environment, store, hello of all ranks,
// backend, world group. What fails undoes what was done, in reverse order.
// Threads: any, after `create`.
#ifndef DISTWRAP_SRC_GROUP_SESSION_STATE_H_
#define DISTWRAP_SRC_GROUP_SESSION_STATE_H_

#include "base/fork_mark.h"
#include "base/mutex.h"
#include "comm/board/board.h"
#include "comm/setup.h"
#include "comm/watchdog.h"
#include "distwrap/group_registry.h"
#include "group/backend_string.h"
#include "group/departures.h"
#include "group/group_state.h"
#include "group/instances.h"
#include "group/session_plan.h"
#include "plugin/registry.h"
#include "store/round.h"

#include <absl/time/clock.h>
#include <absl/time/time.h>

#include <atomic>
#include <memory>
#include <optional>
#include <string>

namespace distwrap::group {

class SessionState : public std::enable_shared_from_this<SessionState> {
 public:
  static absl::StatusOr<std::shared_ptr<SessionState>> create(
      const SessionPlan& plan);
  ~SessionState();
  SessionState(const SessionState&) = delete;
  SessionState& operator=(const SessionState&) = delete;

  int rank() const { return rank_; }
  int world_size() const { return world_size_; }
  const std::shared_ptr<GroupState>& world() const { return world_; }
  bool drop_in() const { return drop_in_; }
  int device_id() const { return device_id_; }
  // Whether all ranks are where they can share memory.
  bool one_host() const { return one_host_; }
  absl::Time began() const { return began_; }

  absl::Duration init_timeout() const { return init_timeout_; }
  absl::Duration goodbye() const { return goodbye_; }
  GroupRegistry& registry() { return registry_; }

  // What groups are made with.
  plugin::Registry& plugins() { return plugins_; }
  Instances& instances() { return instances_; }
  const std::shared_ptr<comm::Watchdog>& watchdog() const { return watchdog_; }
  // Where groups go whose other members have not ended them yet.
  Departures& departures() { return departures_; }

  // Null when operations are not recorded.
  const std::shared_ptr<comm::SessionRecording>& recording() const {
    return recording_;
  }

  // In the child of a fork: neither used nor ended there, whoever drops it.
  bool is_of_parent() const { return process_.is_of_parent(); }

  // Null when no other rank is on this host, or DISTWRAP_CHECK is off.
  const std::shared_ptr<comm::Board>& board() const { return board_; }

  bool closed() const { return closed_.load(std::memory_order_acquire); }

  absl::Status close(absl::Duration timeout);

 private:
  explicit SessionState(const SessionPlan& plan);
  // `make`, and what errors of all its steps have in common.
  absl::Status start(const SessionPlan& plan);
  absl::Status make(const SessionPlan& plan, std::vector<BackendChoice> choices,
                    Deadline deadline);
  absl::Status enter_round(const SessionPlan& plan, const std::string& backend,
                           Deadline deadline);
  void tell_mismatch(const std::string& own, const ErrorInfo& mismatch,
                     Deadline deadline);
  void tell_why(const ErrorInfo& why, Deadline deadline);
  comm::SetupPlan world_setup(const SessionPlan& plan) const;
  absl::Status say_hello(const SessionPlan& plan, const std::string& encoded,
                         std::optional<comm::Door> door, Deadline deadline);
  absl::Status make_world(const SessionPlan& plan,
                          std::vector<BackendChoice> choices,
                          Deadline deadline);

  const base::ForkMark process_;
  const absl::Time began_ = absl::Now();
  const int rank_;
  const int world_size_;
  const absl::Duration init_timeout_;
  const absl::Duration goodbye_;
  const bool drop_in_;
  const int device_id_;
  plugin::Registry plugins_;
  Instances instances_;
  std::optional<store::Round> round_;
  std::shared_ptr<Store> store_;
  const std::shared_ptr<comm::Watchdog> watchdog_ =
      std::make_shared<comm::Watchdog>();
  GroupRegistry registry_;
  uint64_t uid_ = 0;  // of the world; the same on all ranks
  bool one_host_ = false;
  std::shared_ptr<comm::SessionRecording> recording_;
  std::shared_ptr<comm::Board> board_;
  std::shared_ptr<GroupState> world_;
  Departures departures_;
  std::atomic<bool> closed_{false};
  base::Mutex closing_;
};

}  // namespace distwrap::group

#endif  // DISTWRAP_SRC_GROUP_SESSION_STATE_H_
