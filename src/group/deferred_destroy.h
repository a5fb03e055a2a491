// Deferred destroy: groups that this rank has ended and other members have not.
// Their connections stay until all members have ended the group, or until the
// group's timeout has passed.
//
// Ranks may therefore end their groups in any order, and no rank waits for one
// that is busy ending a different group. A thread, started on first use,
// destroys each group when all members have ended it.
// Threads: any, after construction.
#ifndef DISTWRAP_SRC_GROUP_DEFERRED_DESTROY_H_
#define DISTWRAP_SRC_GROUP_DEFERRED_DESTROY_H_

#include "base/mutex.h"
#include "distwrap/deadline.h"
#include "group/close_barrier.h"
#include "group/group_state.h"

#include <absl/status/status.h>

#include <deque>
#include <memory>
#include <thread>
#include <vector>

namespace distwrap::group {

// A group without work in flight and the groups split from it: children before
// their parents, the group itself last.
struct DeferredDestroy {
  std::vector<std::shared_ptr<GroupState>> groups;
  // The groups that may take over remaining keys: the parent, else the world.
  std::vector<std::shared_ptr<GroupState>> heirs;
  CloseBarrier close_barrier;
  Deadline until;
};

// Returns the communicators of a group without work in flight to the backends.
// The first error of a backend says what keeps a communicator from ending.
absl::Status give_back(const GroupState& group, Deadline deadline);

// Destroys all groups of a destroy. `all_left`: no member needs the group's
// keys any more, so they are deleted; otherwise an heir keeps them until it
// ends. Errors: as `give_back`, if all members have left, since else a member
// that is absent may be what a communicator waits for.
absl::Status take_down(const DeferredDestroy& destroy, bool all_left,
                       Deadline deadline);

class DeferredDestroys {
 public:
  DeferredDestroys() = default;
  DeferredDestroys(const DeferredDestroys&) = delete;
  DeferredDestroys& operator=(const DeferredDestroys&) = delete;
  ~DeferredDestroys();

  bool empty() const;
  // Errors: those of base::start_thread; then the connections stay until
  // `stop`.
  absl::Status add(DeferredDestroy destroy);
  // Ends the thread and returns the groups that it has not destroyed. Nothing
  // may be added afterwards.
  std::deque<DeferredDestroy> stop();

 private:
  void run();

  mutable base::Mutex mutex_;
  base::CondVar changed_;
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  // The thread may be working on the front element.
  std::deque<DeferredDestroy> waiting_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace distwrap::group

#endif  // DISTWRAP_SRC_GROUP_DEFERRED_DESTROY_H_
