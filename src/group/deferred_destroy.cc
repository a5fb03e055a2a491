#include "group/deferred_destroy.h"

#include "base/error.h"
#include "base/exceptions.h"
#include "base/guard_door.h"
#include "base/log.h"
#include "base/thread.h"

#include <absl/time/clock.h>

#include <new>
#include <string>
#include <utility>

namespace distwrap::group {
namespace {

// The interval of looking whether the thread should stop.
constexpr absl::Duration kLook = absl::Milliseconds(10);
// The time for a backend to destroy a communicator without work.
constexpr absl::Duration kLetGo = absl::Milliseconds(50);

// The keys that failures have left in the store.
std::vector<std::string> keys_of(GroupState& group) {
  std::vector<std::string> keys = group.left_behind();
  for (std::string& key : group.failure_keys()) keys.push_back(std::move(key));
  return keys;
}

// Gives the keys to the first heir that has not ended.
void bequeath(const DeferredDestroy& destroy,
              const std::vector<std::string>& keys) {
  for (const auto& heir : destroy.heirs)
    if (heir->leave_behind(keys)) return;
}

}  // namespace

absl::Status give_back(const GroupState& group, Deadline deadline) {
  absl::Status status;
  for (auto channel = group.channels().rbegin();
       channel != group.channels().rend(); ++channel)
    status.Update(channel->communicator->destroy(deadline));
  return status;
}

absl::Status take_down(const DeferredDestroy& destroy, bool all_left,
                       Deadline deadline) {
  absl::Status status;
  for (const auto& group : destroy.groups) {
    if (all_left) {
      for (const std::string& key : group->left_behind())
        if (!group->store()->delete_key(key, deadline).ok()) break;
    } else {
      bequeath(destroy, keys_of(*group));
    }
    const absl::Status given_back = give_back(*group, deadline);
    if (all_left) status.Update(given_back);
  }
  if (!all_left) bequeath(destroy, destroy.close_barrier.keys());
  return status;
}

bool DeferredDestroys::empty() const {
  base::MutexLock lock(mutex_);
  return waiting_.empty();
}

absl::Status DeferredDestroys::add(DeferredDestroy destroy) {
  base::MutexLock lock(mutex_);
  waiting_.push_back(std::move(destroy));
  changed_.notify_all();
  if (thread_.joinable()) return absl::OkStatus();
  absl::StatusOr<std::thread> thread =
      base::start_thread("dw-deferred", [this] { run(); });
  if (thread.ok()) thread_ = *std::move(thread);
  return thread.status();
}

void DeferredDestroys::run() {
  const base::OwnWork own_work;
  for (;;) {
    DeferredDestroy* front;
    {
      base::MutexLock lock(mutex_);
      while (waiting_.empty() && !stop_) changed_.wait(mutex_);
      if (stop_) return;
      front = &waiting_.front();  // the reference stays valid: others are added
                                  // at the back
    }
    try {
      const absl::Status heard = front->close_barrier.heard_all(
          Deadline::earlier(front->until, Deadline::after(kLook)));
      const bool still = error_reason(heard) == Reason::kTimedOut;
      if (still && !front->until.passed()) continue;
      const absl::Status ended =
          take_down(*front, heard.ok(), Deadline::after(kLetGo));
      if (!ended.ok())
        base::log(base::LogLevel::kWarning, std::string(ended.message()));
    } catch (const std::bad_alloc&) {  // until there is memory again
      absl::SleepFor(kLook);
      base::MutexLock lock(mutex_);
      if (!front->until.passed() || stop_) continue;
    }
    base::MutexLock lock(mutex_);
    waiting_.pop_front();
  }
}

DeferredDestroys::~DeferredDestroys() {
  for (const DeferredDestroy& destroy : stop())
    base::guarded("", [&] {
      return take_down(destroy, false, Deadline::after(kLetGo));
    }).IgnoreError();  // the communicators end with their groups
}

std::deque<DeferredDestroy> DeferredDestroys::stop() {
  std::thread thread;
  {
    base::MutexLock lock(mutex_);
    stop_ = true;
    changed_.notify_all();
    thread = std::move(thread_);
  }
  if (thread.joinable()) thread.join();
  base::MutexLock lock(mutex_);
  return std::exchange(waiting_, {});
}

}  // namespace distwrap::group
