// The object behind a Work: an operation that ends once, can be waited for, and
// notifies listeners.
//
// It has two counts: handles, and tasks, which are all other users. It is freed
// with the last of both; its descriptor is closed with the last handle.
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
#include <functional>
#include <list>
#include <memory>
#include <vector>

namespace distwrap::comm {

class Completion {
 public:
  using Callback = std::function<void(const absl::Status&)>;

  // Called at the end, in the thread that ends the operation and without its
  // lock. Must not block.
  class Listener {
   public:
    virtual ~Listener() = default;
    // `callbacks`: the thread for callbacks that follow.
    virtual void ended(CallbackThread& callbacks) = 0;
  };

  Completion(const Completion&) = delete;
  Completion& operator=(const Completion&) = delete;

  // The completion of a handle; null for one that is done.
  static Completion* of(const Work& work) { return work.cell_; }

  WorkState state() const { return state_.load(std::memory_order_acquire); }
  // In the child of a fork no thread ends it.
  bool is_of_parent() const { return process_.is_of_parent(); }
  bool ended() const {
    const WorkState now = state();
    return now != WorkState::kRunning && now != WorkState::kQueued;
  }
  absl::Status status() const;
  absl::Status wait(Deadline deadline);
  void on_done(Callback f);
  absl::StatusOr<int> event_fd();

  // Moves the first of `listeners` here, which needs no memory. False when the
  // operation has ended: then that listener is not called.
  using Listeners = std::list<std::shared_ptr<Listener>>;
  bool listen(Listeners& listeners);
  void unlisten(const Listener* listener);

  // Makes a stream wait for the end, and returns at once.
  virtual absl::Status wait_stream(const Stream& stream);

  // Calls the backend's `progress`. Returns whether further calls are needed
  // for an end.
  virtual bool poll() = 0;
  // This thread waits until `deadline`: it may run what has not begun.
  virtual void run_here(Deadline /*deadline*/) {}
  virtual uint64_t seq() const { return 0; }
  virtual std::vector<TensorView> result() const = 0;
  // The error kWaitExpired, with the known facts.
  virtual absl::Status expired_wait() = 0;
  // Whether the backend has nothing of it yet.
  virtual bool can_cancel() const { return state() == WorkState::kQueued; }
  // Cancels the operation, if that is still possible.
  virtual absl::Status cancel();

  void acquire() { references_.fetch_add(kHandle, std::memory_order_relaxed); }
  void release();

 protected:
  // Begins with one handle, for `handle`, and one task, for the thread that
  // ends the operation.
  Completion() = default;
  virtual ~Completion();

  Work handle() { return Work(this); }
  // Ends the operation; only the first call counts.
  void end(WorkState state, absl::Status error, CallbackThread& callbacks);
  void release_task();
  // Before the end: kQueued or kRunning.
  void set_queued(bool queued);
  // Calls `f` before the end; false when the operation has ended.
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
  Listeners listeners_ ABSL_GUARDED_BY(mutex_);
  std::list<Callback> callbacks_ ABSL_GUARDED_BY(mutex_);
  // A thread runs the callbacks, or is about to.
  bool calling_ ABSL_GUARDED_BY(mutex_) = false;
  int event_fd_ ABSL_GUARDED_BY(mutex_) = -1;
};

// How long a waiter sleeps between two polls of a backend that may work only
// when asked. The longer the operation takes, the longer are the naps: so
// waiting costs little, and no operation is noticed later than by the time that
// it took.
class Naps {
 public:
  // The end of the next nap if the waiter has to poll again, else `end`.
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
