// Keeps deadlines: one thread per session, asleep until the nearest one.
//
// Threads: any. A watch that is added and removed before its deadline costs two
// uncontended locks and wakes nobody.
// Ownership: watches belong to their makers, who remove them before they die.
#ifndef DISTWRAP_SRC_COMM_WATCHDOG_H_
#define DISTWRAP_SRC_COMM_WATCHDOG_H_

#include "base/mutex.h"
#include "comm/callback_thread.h"
#include "distwrap/deadline.h"

#include <thread>

namespace distwrap::comm {

class Watchdog {
 public:
  class Watch {
   public:
    // The deadline has passed; runs on the watchdog's thread, off its lock, and
    // does not block. Returns when to be called again.
    virtual Deadline expired() = 0;
    virtual ~Watch() = default;

   private:
    friend class Watchdog;
    Watch* previous_ = nullptr;
    Watch* next_ = nullptr;
    bool linked_ = false;
    Deadline at_;
  };

  Watchdog() = default;
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;
  // No watch is left.
  ~Watchdog();

  // Starts the thread ahead of its first use.
  void start();

  void add(Watch& watch, Deadline at);
  // Afterwards `expired` of this watch is neither running nor called again;
  // from within `expired` itself: it is not called again, and may end with the
  // watch gone.
  void remove(Watch& watch);

  // Where the session's callbacks run; not here, since they may block.
  CallbackThread& callbacks() { return callbacks_; }

  // How often `add` had to wake the thread.
  int wake_ups();

 private:
  void run();
  void link(Watch& watch, Deadline at) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void unlink(Watch& watch) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Watch* nearest() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  base::Mutex mutex_;
  base::CondVar changed_;
  Watch* first_ ABSL_GUARDED_BY(mutex_) = nullptr;
  Watch* running_ ABSL_GUARDED_BY(mutex_) = nullptr;
  // What the thread sleeps to, set by whoever wakes it for an earlier deadline.
  // Not moved when watches go, not even the last: a stream of short operations
  // with equal limits wakes the thread once, and not at each.
  Deadline asleep_until_ ABSL_GUARDED_BY(mutex_);
  int wake_ups_ ABSL_GUARDED_BY(mutex_) = 0;
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_ ABSL_GUARDED_BY(mutex_);
  CallbackThread callbacks_;
};

}  // namespace distwrap::comm

#endif  // DISTWRAP_SRC_COMM_WATCHDOG_H_
