// The state behind a Session handle: everything that one rank owns.
//
// Start-up has the steps arguments and environment, store, setup messages of
// all ranks, backend, world group. A failure undoes the earlier steps in
// reverse order.
// Threads: any, after `create`.
#ifndef DISTWRAP_SRC_GROUP_SESSION_STATE_H_
#define DISTWRAP_SRC_GROUP_SESSION_STATE_H_

#include "base/fork_mark.h"
#include "base/mutex.h"
#include "comm/board/board.h"
#include "comm/host_news.h"
#include "comm/recorder/message_stragglers.h"
#include "comm/setup.h"
#include "comm/watchdog.h"
#include "distwrap/group_registry.h"
#include "group/backend_string.h"
#include "group/deferred_destroy.h"
#include "group/group_state.h"
#include "group/guard.h"
#include "group/hello.h"
#include "group/instances.h"
#include "group/session_plan.h"
#include "plugin/registry.h"
#include "store/round.h"

#include <absl/time/clock.h>
#include <absl/time/time.h>

#include <algorithm>
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
  // Whether data may travel between hosts in the clear.
  bool clear_data() const { return clear_data_; }
  const std::shared_ptr<Store>& store() const { return store_; }
  bool full_check() const { return full_check_; }
  int device_id() const { return device_id_; }
  // Whether all ranks can share memory.
  bool one_host() const {
    return std::all_of(host_of_.begin(), host_of_.end(),
                       [](int32_t host) { return host == 0; });
  }
  // By rank: the number of its host, counted from that of rank 0.
  const std::vector<int32_t>& host_of() const { return host_of_; }
  // The backend that `auto` means for host memory between hosts.
  const std::string& between_hosts() const { return between_hosts_; }
  absl::Time began() const { return began_; }

  absl::Duration init_timeout() const { return init_timeout_; }
  absl::Duration close_limit() const { return close_limit_; }
  GroupRegistry& registry() { return registry_; }

  // The backends from which groups are made.
  plugin::Registry& plugins() { return plugins_; }
  Instances& instances() { return instances_; }
  const std::shared_ptr<comm::Watchdog>& watchdog() const { return watchdog_; }
  // The groups that other members have not ended yet.
  DeferredDestroys& deferred() { return deferred_; }

  // Null when operations are not recorded.
  const std::shared_ptr<comm::SessionRecording>& recording() const {
    return recording_;
  }

  // Whether this process is the child of a fork, which must neither use nor end
  // it.
  bool is_of_parent() const { return process_.is_of_parent(); }

  // Null when all ranks are on one host, or DISTWRAP_CHECK is off.
  const std::shared_ptr<comm::HostNews>& news() const { return news_; }

  // Null when no other rank is on this host, or DISTWRAP_CHECK is off.
  const std::shared_ptr<comm::Board>& board() const { return board_; }

  bool closed() const { return closed_.load(std::memory_order_acquire); }
  // This session's wish of the guard, while it lives.
  GuardMode guard() const {
    return closed() || is_of_parent() ? GuardMode::kOff : wish_;
  }

  absl::Status close(absl::Duration timeout);

 private:
  explicit SessionState(const SessionPlan& plan);
  // Runs `make` and adds the common fields to its errors.
  absl::Status start(const SessionPlan& plan);
  absl::Status make(const SessionPlan& plan, std::vector<BackendChoice> choices,
                    Deadline deadline);
  absl::Status enter_round(const SessionPlan& plan, const std::string& backend,
                           Deadline deadline);
  // Sets up the parts that this rank needs of its own system.
  absl::Status prepare(const SessionPlan& plan,
                       std::optional<comm::DescriptorHandover>* handover);
  void tell_mismatch(const std::string& own, const ErrorInfo& mismatch,
                     Deadline deadline);
  void tell_why(const ErrorInfo& why, Deadline deadline);
  comm::SetupPlan world_setup(const SessionPlan& plan) const;
  absl::Status say_hello(const SessionPlan& plan, const std::string& terms,
                         const Hello& mine,
                         std::optional<comm::DescriptorHandover> handover,
                         Deadline deadline);
  // Chooses what `auto` means between hosts: ucx if every rank can open it.
  absl::Status choose_between_hosts(const SessionPlan& plan, Deadline deadline);
  // Opens the line to the other hosts, if there are any.
  absl::Status open_news(const SessionPlan& plan, Deadline deadline);
  absl::Status make_world(const SessionPlan& plan,
                          std::vector<BackendChoice> choices,
                          Deadline deadline);

  const base::ForkMark process_;
  const GuardMode wish_;
  GuardHold guard_;  // ends after everything else
  const absl::Time began_ = absl::Now();
  const int rank_;
  const int world_size_;
  const absl::Duration init_timeout_;
  const absl::Duration close_limit_;
  const bool drop_in_, clear_data_;
  bool full_check_ = false;
  const int device_id_;
  plugin::Registry plugins_;
  Instances instances_;
  std::optional<store::Round> round_;
  std::shared_ptr<Store> store_;
  std::shared_ptr<comm::Watchdog> watchdog_;
  GroupRegistry registry_;
  uint64_t uid_ = 0;  // uid of the world; equal on all ranks
  std::vector<int32_t> host_of_;
  std::string between_hosts_ = "gloo";
  std::shared_ptr<comm::SessionRecording> recording_;
  std::optional<comm::MessageStragglers> message_stragglers_;
  std::shared_ptr<comm::Board> board_;
  std::shared_ptr<comm::HostNews> news_;
  std::shared_ptr<GroupState> world_;
  DeferredDestroys deferred_;
  std::atomic<bool> closed_{false};
  base::Mutex closing_;
};

}  // namespace distwrap::group

#endif  // DISTWRAP_SRC_GROUP_SESSION_STATE_H_
