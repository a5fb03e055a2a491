// What a Work is a handle of: something that ends once, is waited for, and
// tells those who asked.
//
// Counted in two ways: by handles, and by tasks, which are whatever else will
// still touch it. It dies with the last of both; its descriptor is closed with
// the last handle.
// Threads: any.
#ifndef DISTWRAP_SRC_COMM_COMPLETION_H_
#define DISTWRAP_SRC_COMM_COMPLETION_H_

#include "base/fork_mark.h"
#include "base/mutex.h"
#include "comm/callback_thread.h"
#include "distwrap/status.h"
#include "distwrap/work.h"

#include <absl/time/time.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

namespace distwrap::comm {

class Completion {
 public:
  using Callback = std::function<void(const absl::Status&)>;

  // Told at the end, in the thread that ends it and off its lock; does not
  // block.
  class Listener {
   public:
    virtual ~Listener() = default;
    // `callbacks` is where to have callbacks run in consequence.
    virtual void ended(CallbackThread& callbacks) = 0;
  };

  Completion(const Completion&) = delete;
  Completion& operator=(const Completion&) = delete;

  // Of a handle; null for one that is done.
  static Completion* of(const Work& work) { return work.cell_; }

  WorkState state() const { return state_.load(std::memory_order_acquire); }
  // Nobody ends it in the child of a fork.
  bool is_of_parent() const { return process_.is_of_parent(); }
  bool ended() const {
    const WorkState now = state();
    return now != WorkState::kRunning && now != WorkState::kQueued;
  }
  absl::Status status() const;
  absl::Status wait(Deadline deadline);
  void on_done(Callback f);
  absl::StatusOr<int> event_fd();

  // False when it has ended: then it is not told.
  bool listen(std::shared_ptr<Listener> listener);
  void unlisten(const Listener* listener);

  // Makes a stream wait for the end; returns at once.
  virtual absl::Status wait_stream(const Stream& stream);

  // Lets the backend work. Whether it needs to be called again for an end to
  // come about.
  virtual bool poll() = 0;
  virtual uint64_t seq() const { return 0; }
  virtual std::vector<TensorView> result() const = 0;
  // kWaitExpired, with what is known of it.
  virtual absl::Status expired_wait() const = 0;

  void acquire() { references_.fetch_add(kHandle, std::memory_order_relaxed); }
  void release();

 protected:
  // With one handle, for `handle`, and one task, for whoever ends it.
  Completion() = default;
  virtual ~Completion();

  Work handle() { return Work(this); }
  // First end wins.
  void end(WorkState state, absl::Status error, CallbackThread& callbacks);
  void release_task();
  // Calls `f` before an end that has not come yet; else false.
  template <class F>
  bool while_running(const F& f) {
    base::MutexLock lock(mutex_);
    if (ended()) return false;
    f();
    return true;
  }

 private:
  static constexpr int64_t kHandle = 1, kTask = int64_t{1} << 32;

  void run_callbacks();
  void close_event();

  const base::ForkMark process_;
  std::atomic<int64_t> references_{kHandle + kTask};
  std::atomic<WorkState> state_{WorkState::kRunning};
  mutable base::Mutex mutex_;
  base::CondVar ended_;
  absl::Status error_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::shared_ptr<Listener>> listeners_ ABSL_GUARDED_BY(mutex_);
  std::deque<Callback> callbacks_ ABSL_GUARDED_BY(mutex_);
  // Somebody runs callbacks, or is about to.
  bool calling_ ABSL_GUARDED_BY(mutex_) = false;
  int event_fd_ ABSL_GUARDED_BY(mutex_) = -1;
};

// How long a waiter sleeps between two looks at a backend that may work only
// when it is asked to: the longer it takes the longer, so that waiting costs
// little, and no operation ends late by more than it has taken.
class Naps {
 public:
  // Until when, if it has to look again; else to the end.
  Deadline next(bool again, Deadline end) {
    if (!again) return end;
    const Deadline until = Deadline::earlier(end, Deadline::after(span_));
    span_ = std::min(2 * span_, kLongest);
    return until;
  }

 private:
  static constexpr absl::Duration kLongest = absl::Milliseconds(2);
  absl::Duration span_ = absl::Microseconds(50);
};

}  // namespace distwrap::comm

#endif  // DISTWRAP_SRC_COMM_COMPLETION_H_
