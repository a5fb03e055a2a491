// The state behind a Group handle.
//
// A group has one communicator for each device type that it serves.
// Threads: any. Constant after construction except the children and the
// timeout; communicators guard themselves.
// Ownership: the session holds the world, and a group holds its children; a
// child does not keep its parent alive.
#ifndef DISTWRAP_SRC_GROUP_GROUP_STATE_H_
#define DISTWRAP_SRC_GROUP_GROUP_STATE_H_

#include "base/fork_mark.h"
#include "base/mutex.h"
#include "comm/communicator.h"
#include "comm/recorder/session_recording.h"
#include "distwrap/group.h"
#include "group/backend_string.h"
#include "group/rank_map.h"

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace distwrap::group {

class SessionState;

// A communicator with the device type that it serves.
struct Channel {
  int32_t device_type = 0;
  comm::BackendCommunicator::Ptr communicator;
};

// The key of the first failure, behind a communicator's prefix.
inline constexpr char kFailureKey[] = "failure";

// The parameters and parts of a group.
struct GroupParts {
  std::string name;         // for messages
  std::string description;  // as the caller gave it
  uint64_t uid = 0;         // equal on all members, unique in the job
  int rank = 0;
  std::vector<int> global_ranks;
  std::vector<int32_t> host_of = {};   // by rank: its host's number in the job
  std::vector<BackendChoice> choices;  // at least one, settled
  comm::Hints hints = {};
  absl::Duration timeout = absl::InfiniteDuration();
  std::shared_ptr<comm::SessionRecording> recording = {};  // null: none
  std::shared_ptr<comm::HookList> hooks = {};              // created with the
                                                           // group
  std::shared_ptr<comm::Board> board = {};                 // null: none
  std::shared_ptr<comm::HostNews> news = {};  // null: the job is on one host
  std::shared_ptr<Store> store;
  std::string key_prefix;         // prefix of the group's keys in the store
  std::vector<Channel> channels;  // at least one, in the order of `choices`
  // The meeting place of all its ranks on the board, if all are there; it
  // belongs to the first channel.
  std::weak_ptr<comm::GroupBoard> group_board = {};
  std::weak_ptr<GroupState> parent = {};
  std::weak_ptr<SessionState> session = {};
};

class GroupState : public std::enable_shared_from_this<GroupState> {
 public:
  explicit GroupState(GroupParts parts);

  const std::string& name() const { return parts_.name; }
  const std::string& description() const { return parts_.description; }
  uint64_t uid() const { return parts_.uid; }
  int rank() const { return parts_.rank; }
  int size() const { return static_cast<int>(parts_.global_ranks.size()); }
  const std::vector<int>& global_ranks() const { return parts_.global_ranks; }
  const std::vector<int32_t>& host_of() const { return parts_.host_of; }
  // The rank in the group of a rank of the world; -1 for a rank that is no
  // member.
  int group_rank(int global_rank) const { return ranks_.find(global_rank); }
  const std::vector<BackendChoice>& choices() const { return parts_.choices; }
  const std::vector<DeviceBackend>& device_backends() const { return spelled_; }
  const comm::Hints& hints() const { return parts_.hints; }

  // The communicator for memory of this type; null when there is none.
  comm::BackendCommunicator* find(Device device) const {
    return device.type == first_type_ ? first_ : find_other(device.type);
  }
  // The communicator for operations without a tensor: the only one, else the
  // one for host memory, else the first in the order of the backend string.
  comm::BackendCommunicator* default_communicator() const { return default_; }
  const std::vector<Channel>& channels() const { return parts_.channels; }

  const std::shared_ptr<comm::HookList>& hooks() const { return parts_.hooks; }

  // The time limit of operations whose options give none.
  absl::Duration timeout() const;
  // Sets the limit of future operations in all its communicators. Positive.
  void set_timeout(absl::Duration timeout);

  // The store that its ranks share, and a key in it that no other group uses.
  const std::shared_ptr<Store>& store() const { return parts_.store; }
  std::string key(absl::string_view text) const;
  // The keys of the first failures.
  std::vector<std::string> failure_keys() const;
  // The number of the next meeting over the store; members meet in the same
  // order.
  uint64_t next_meeting() const {
    return meetings_.fetch_add(1, std::memory_order_relaxed);
  }

  // Null when not all ranks can meet on the board, and after the end of the
  // group page.
  std::shared_ptr<comm::GroupBoard> group_board() const {
    return parts_.group_board.lock();
  }
  // Held by the call whose ranks meet on the board.
  base::Mutex& meeting_mutex() { return meeting_mutex_; }

  std::shared_ptr<GroupState> parent() const { return parts_.parent.lock(); }
  std::shared_ptr<SessionState> session() const {
    return parts_.session.lock();
  }
  // The groups that were split from this one and not destroyed, in order of
  // creation.
  std::vector<std::shared_ptr<GroupState>> children() const;
  // False when the group is being destroyed.
  bool add_child(std::shared_ptr<GroupState> child);
  void remove_child(const GroupState* child);
  // The number of the next call that all ranks make together; every rank
  // counts.
  uint64_t next_call();
  // How often this rank has aborted the group. A call that waits for the other
  // ranks ends when the number changes.
  uint64_t aborts() const { return aborts_.load(std::memory_order_acquire); }
  void count_abort() { aborts_.fetch_add(1, std::memory_order_acq_rel); }
  // The prefix of the keys of the call in which this rank waits over the store;
  // empty for none.
  void waits_in(std::string call);
  std::string waits_in() const;
  // Keys of a failed call, to be deleted when the group ends; false when it has
  // ended already.
  bool leave_behind(const std::vector<std::string>& keys);
  // The keys left behind; taken once, by the thread that ends the group.
  std::vector<std::string> left_behind();
  // How often this rank has begun to make this child before. Failed attempts
  // count, since they failed on all members.
  uint64_t begin_child(uint64_t which);
  // Forbids new children and returns those that exist; nullopt for a group that
  // has ended before.
  std::optional<std::vector<std::shared_ptr<GroupState>>> end();
  bool ended() const;
  // Whether this process is the child of a fork, which must neither use nor end
  // it.
  bool is_of_parent() const { return process_.is_of_parent(); }

  // The error when `find` returns null.
  absl::Status no_communicator(Device device,
                               absl::string_view call = {}) const;

 private:
  comm::BackendCommunicator* find_other(int32_t device_type) const;

  const base::ForkMark process_;
  const GroupParts parts_;
  const RankMap ranks_;
  const std::vector<DeviceBackend> spelled_;
  // The fields that every call reads, next to each other.
  int32_t first_type_;
  comm::BackendCommunicator* first_;
  comm::BackendCommunicator* default_;
  std::atomic<int64_t> timeout_;  // ns; 0: none

  mutable std::atomic<uint64_t> meetings_{0};
  std::atomic<uint64_t> aborts_{0};
  base::Mutex meeting_mutex_;
  mutable base::Mutex mutex_;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  uint64_t calls_ ABSL_GUARDED_BY(mutex_) = 0;
  std::string waits_in_ ABSL_GUARDED_BY(mutex_);
  std::optional<std::vector<std::string>> left_behind_ ABSL_GUARDED_BY(mutex_) =
      std::vector<std::string>();
  std::map<uint64_t, uint64_t> generations_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::shared_ptr<GroupState>> children_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace distwrap::group

#endif  // DISTWRAP_SRC_GROUP_GROUP_STATE_H_
