// The thread of a worker that looks after it while nobody waits
// in it: for asynchronous operations, and for what UCX has still to do for
// operations that have ended.
//
// As long as others drive the worker it only looks now and then whether they
// still do. Then it sleeps on the worker's descriptor.
//
// Threads: any, `finish` by the last.
#ifndef DISTWRAP_BACKENDS_UCX_PROGRESS_THREAD_H_
#define DISTWRAP_BACKENDS_UCX_PROGRESS_THREAD_H_

#include "bell.h"
#include "worker.h"

#include <atomic>
#include <mutex>
#include <thread>

namespace ucx_backend {

class ProgressThread {
 public:
  explicit ProgressThread(Worker* worker) : worker_(worker) {}
  ~ProgressThread() { finish(); }
  ProgressThread(const ProgressThread&) = delete;
  ProgressThread& operator=(const ProgressThread&) = delete;

  // Throws when there is no thread. Once is enough.
  void start();
  bool started() const { return started_.load(std::memory_order_acquire); }
  void finish();
  // Others leave the worker now: it is looked after from here on.
  void take_over() {
    asked_.store(true, std::memory_order_release);
    bell_.ring();
  }

 private:
  void loop();

  Worker* const worker_;
  Bell bell_;
  std::mutex starting_;
  std::atomic<bool> started_ = false;
  std::atomic<bool> ending_ = false;
  std::atomic<bool> asked_ = false;
  std::thread thread_;
};

}  // namespace ucx_backend

#endif  // DISTWRAP_BACKENDS_UCX_PROGRESS_THREAD_H_
