// The thread of a session in which users' callbacks run: not where an operation
// ends, since that may be deep inside a backend, which a callback must be free
// to call. Made at the first callback.
//
// Threads: any.
#ifndef DISTWRAP_SRC_COMM_CALLBACK_THREAD_H_
#define DISTWRAP_SRC_COMM_CALLBACK_THREAD_H_

#include "base/mutex.h"

#include <deque>
#include <functional>
#include <memory>
#include <thread>

namespace distwrap::comm {

class CallbackThread {
 public:
  CallbackThread();
  CallbackThread(const CallbackThread&) = delete;
  CallbackThread& operator=(const CallbackThread&) = delete;
  // Runs what is left; from within a callback, leaves that to the thread.
  ~CallbackThread();

  void post(std::function<void()> task);

 private:
  // What the thread uses; it may outlive the object by its last callback.
  struct Queue {
    base::Mutex mutex;
    base::CondVar changed;
    std::deque<std::function<void()>> tasks ABSL_GUARDED_BY(mutex);
    bool stop ABSL_GUARDED_BY(mutex) = false;
  };
  static void run(Queue& queue);

  const std::shared_ptr<Queue> queue_;
  base::Mutex mutex_;
  std::thread thread_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace distwrap::comm

#endif  // DISTWRAP_SRC_COMM_CALLBACK_THREAD_H_
