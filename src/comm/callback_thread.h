// The thread of a session in which users' callbacks run. They do not run where
// an operation ends, since that may be deep inside a backend, which a callback
// must be free to call. The thread exists before the first operation, since an
// operation that has ended could not report that no thread can be started.
//
// Threads: any.
#ifndef DISTWRAP_SRC_COMM_CALLBACK_THREAD_H_
#define DISTWRAP_SRC_COMM_CALLBACK_THREAD_H_

#include "base/mutex.h"

#include <absl/status/status.h>

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
  // Runs the remaining tasks; if called within a callback, leaves them to the
  // thread.
  ~CallbackThread();

  // Starts the thread; called before the first `post`. Errors: those of
  // base::start_thread.
  absl::Status start();

  // False when there is no memory to remember the task with.
  bool post(std::function<void()> task);

 private:
  // The state that the thread uses. It may outlive the object by the last
  // callback.
  struct Queue {
    base::Mutex mutex;
    base::CondVar changed;
    std::deque<std::function<void()>> tasks ABSL_GUARDED_BY(mutex);
    bool stop ABSL_GUARDED_BY(mutex) = false;
  };
  static void run(Queue& queue);

  const std::shared_ptr<Queue> queue_;
  std::thread thread_;
};

}  // namespace distwrap::comm

#endif  // DISTWRAP_SRC_COMM_CALLBACK_THREAD_H_
