// Keeps deadlines: one thread per session, which sleeps until the nearest
// deadline, or until a descriptor that a watch waits for is readable. The
// thread exists before the first operation, so no operation can lack it.
//
// Threads: any. A watch that is added and removed before its deadline costs two
// uncontended locks and wakes nobody.
// Ownership: watches belong to their makers, who remove them before they die.
#ifndef DISTWRAP_SRC_COMM_WATCHDOG_H_
#define DISTWRAP_SRC_COMM_WATCHDOG_H_

#include "base/descriptor.h"
#include "base/mutex.h"
#include "comm/callback_thread.h"
#include "distwrap/deadline.h"

#include <absl/status/statusor.h>

#include <memory>
#include <thread>

namespace distwrap::comm {

class Watchdog {
 public:
  class Watch {
   public:
    // Called when the deadline has passed or the descriptor is readable, on the
    // watchdog's thread and without its lock. Must not block. Returns the
    // latest time of the next call.
    virtual Deadline expired() = 0;
    virtual ~Watch() = default;

   private:
    friend class Watchdog;
    Watch* previous_ = nullptr;
    Watch* next_ = nullptr;
    bool linked_ = false;
    int fd_ = -1;
    Deadline at_;
  };

  // Starts the watchdog's thread and the thread of callbacks. Errors: those of
  // base::start_thread.
  static absl::StatusOr<std::shared_ptr<Watchdog>> make();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;
  // Precondition: no watch is left.
  ~Watchdog();

  // Adds a watch. `fd`, unless -1, stays open until `remove`.
  void add(Watch& watch, Deadline at, int fd = -1);
  // Calls `expired` soon, if the watch is added.
  void hasten(Watch& watch);
  // Removes a watch: after the return, `expired` is neither running nor called
  // again. Called within `expired` itself: it is not called again, and the
  // watch may be freed before `expired` returns.
  void remove(Watch& watch);

  // Where the session's callbacks run; not here, since they may block.
  CallbackThread& callbacks() { return callbacks_; }

  // The number of times that `add` had to wake the thread.
  int wake_ups();

 private:
  Watchdog() = default;
  void run();
  void link(Watch& watch, Deadline at) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void unlink(Watch& watch) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Watch* nearest() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void wake_for(Deadline at) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void sleep() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void poll_descriptors() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  base::Mutex mutex_;
  base::CondVar changed_;
  Watch* first_ ABSL_GUARDED_BY(mutex_) = nullptr;
  Watch* running_ ABSL_GUARDED_BY(mutex_) = nullptr;
  // The thread sleeps until this time; set by a caller that wakes it for an
  // earlier deadline. It does not move when watches are removed, not even the
  // last one: so a stream of short operations with equal limits wakes the
  // thread once and not for each.
  Deadline asleep_until_ ABSL_GUARDED_BY(mutex_);
  int wake_ups_ ABSL_GUARDED_BY(mutex_) = 0;
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  // The watch whose `expired` was running has to be called once more.
  bool hastened_ ABSL_GUARDED_BY(mutex_) = false;
  // How many watches have a descriptor, and what wakes the thread while it
  // polls them: an eventfd, made for the first of them.
  int descriptors_ ABSL_GUARDED_BY(mutex_) = 0;
  base::Descriptor bell_ ABSL_GUARDED_BY(mutex_);
  bool polling_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
  CallbackThread callbacks_;
};

}  // namespace distwrap::comm

#endif  // DISTWRAP_SRC_COMM_WATCHDOG_H_
