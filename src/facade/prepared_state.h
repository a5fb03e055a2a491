// The state of a PreparedOperation: the checked call, its group, and the last
// start on the prepared buffers that did not wait.
//
// Threads: any.
#ifndef DISTWRAP_SRC_FACADE_PREPARED_STATE_H_
#define DISTWRAP_SRC_FACADE_PREPARED_STATE_H_

#include "base/mutex.h"
#include "comm/prepared_call.h"
#include "distwrap/work.h"
#include "group/group_state.h"

#include <atomic>
#include <memory>
#include <utility>

namespace distwrap::facade {

class PreparedState {
 public:
  // Without a group the caller keeps the communicator.
  PreparedState(std::shared_ptr<group::GroupState> group,
                std::unique_ptr<comm::PreparedCall> call)
      : group_(std::move(group)), call_(std::move(call)) {}
  const comm::PreparedCall& call() const { return *call_; }

  // Whether a start that did not wait still uses the prepared buffers. Locks
  // only after such a start.
  bool buffers_in_use() {
    if (!has_unfinished_.load(std::memory_order_acquire)) return false;
    base::MutexLock lock(mutex_);
    if (!unfinished_.test()) return true;
    unfinished_ = Work();
    has_unfinished_.store(false, std::memory_order_release);
    return false;
  }
  // A start on the prepared buffers that may not have ended.
  void keep(const Work& started) {
    base::MutexLock lock(mutex_);
    unfinished_ = started;
    has_unfinished_.store(true, std::memory_order_release);
  }

 private:
  const std::shared_ptr<group::GroupState> group_;  // outlives the call
  const std::unique_ptr<comm::PreparedCall> call_;
  std::atomic<bool> has_unfinished_{false};
  base::Mutex mutex_;
  Work unfinished_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace distwrap::facade

#endif  // DISTWRAP_SRC_FACADE_PREPARED_STATE_H_
