// What stands behind a Group handle.
//
// A group has one communicator for each device type that it serves.
// Threads: any. Constant after construction except the children and the
// timeout; communicators guard themselves.
// Ownership: the session holds the world, a group its children; a child does
// not keep its parent.
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

// Where ranks say what failed first, behind a communicator's prefix.
inline constexpr char kFailureKey[] = "failure";

// What a group is made of.
struct GroupParts {
  std::string name;         // for messages
  std::string description;  // as the caller gave it
  uint64_t uid = 0;         // equal on all members, of no other group
  int rank = 0;
  std::vector<int> global_ranks;
  std::vector<BackendChoice> choices;  // at least one, settled
  comm::Hints hints = {};
  absl::Duration timeout = absl::InfiniteDuration();
  std::shared_ptr<comm::SessionRecording> recording = {};  // null: none
  std::shared_ptr<comm::HookList> hooks = {};              // made with it
  std::shared_ptr<comm::Board> board = {};                 // null: none
  std::shared_ptr<Store> store;
  std::string key_prefix;         // of the group's keys in the store
  std::vector<Channel> channels;  // at least one, in the order of `choices`
  // Where all its ranks meet on the board, if all of them do; the first
  // channel's.
  std::weak_ptr<comm::Lane> lane = {};
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
  // Of a rank of the world; -1 when it is not a member.
  int group_rank(int global_rank) const { return ranks_.find(global_rank); }
  const std::vector<BackendChoice>& choices() const { return parts_.choices; }
  const std::vector<DeviceBackend>& device_backends() const { return spelled_; }
  const comm::Hints& hints() const { return parts_.hints; }

  // For memory of this kind; null when there is none.
  comm::BackendCommunicator* find(Device device) const {
    return device.type == first_type_ ? first_ : find_other(device.type);
  }
  // Of operations without a tensor: the only one, else that for host memory,
  // else the first in the order of the backend string.
  comm::BackendCommunicator* default_communicator() const { return default_; }
  const std::vector<Channel>& channels() const { return parts_.channels; }

  const std::shared_ptr<comm::HookList>& hooks() const { return parts_.hooks; }

  // Limit of an operation that gives none.
  absl::Duration timeout() const;
  // Of operations to come, in all its communicators. Positive.
  void set_timeout(absl::Duration timeout);

  // The store that its ranks share, and a key in it that no other group uses.
  const std::shared_ptr<Store>& store() const { return parts_.store; }
  std::string key(absl::string_view text) const;
  // Where its ranks say what failed first.
  std::vector<std::string> failure_keys() const;
  // Number of a meeting over the store; the members make them in one order.
  uint64_t next_meeting() const {
    return meetings_.fetch_add(1, std::memory_order_relaxed);
  }

  // Null when not all ranks can meet on the board, and after its end.
  std::shared_ptr<comm::Lane> lane() const { return parts_.lane.lock(); }
  // Of whoever meets there.
  base::Mutex& meeting_mutex() { return meeting_mutex_; }

  std::shared_ptr<GroupState> parent() const { return parts_.parent.lock(); }
  std::shared_ptr<SessionState> session() const {
    return parts_.session.lock();
  }
  // In the order of their making; those that were destroyed are gone.
  std::vector<std::shared_ptr<GroupState>> children() const;
  // False when the group is being destroyed.
  bool add_child(std::shared_ptr<GroupState> child);
  void remove_child(const GroupState* child);
  // Number of a call that all ranks make together, counted on each rank.
  uint64_t next_call();
  // Keys of a call that went wrong, to be deleted when the group ends; false
  // when that has happened.
  bool leave_behind(const std::vector<std::string>& keys);
  // For whoever ends the group, once.
  std::vector<std::string> left_behind();
  // How often this rank has begun to make this very child before. What failed
  // counts too: it failed on all members.
  uint64_t begin_child(uint64_t which);
  // Ends the making of children; those that there are. Nothing for a group that
  // has ended before.
  std::optional<std::vector<std::shared_ptr<GroupState>>> end();
  bool ended() const;
  // In the child of a fork: neither used nor ended there.
  bool is_of_parent() const { return process_.is_of_parent(); }

  // The error of `find` being null.
  absl::Status no_communicator(Device device,
                               absl::string_view call = {}) const;

 private:
  comm::BackendCommunicator* find_other(int32_t device_type) const;

  const base::ForkMark process_;
  const GroupParts parts_;
  const RankMap ranks_;
  const std::vector<DeviceBackend> spelled_;
  // What a call reads, side by side.
  int32_t first_type_;
  comm::BackendCommunicator* first_;
  comm::BackendCommunicator* default_;
  std::atomic<int64_t> timeout_;  // ns; 0: none

  mutable std::atomic<uint64_t> meetings_{0};
  base::Mutex meeting_mutex_;
  mutable base::Mutex mutex_;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  uint64_t calls_ ABSL_GUARDED_BY(mutex_) = 0;
  std::optional<std::vector<std::string>> left_behind_ ABSL_GUARDED_BY(mutex_) =
      std::vector<std::string>();
  std::map<uint64_t, uint64_t> generations_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::shared_ptr<GroupState>> children_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace distwrap::group

#endif  // DISTWRAP_SRC_GROUP_GROUP_STATE_H_
