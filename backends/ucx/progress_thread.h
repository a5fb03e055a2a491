// The thread that drives a worker while no other thread waits in it: for
// asynchronous operations, and for the work that UCX has left to do for
// operations that have ended.
//
// As long as other threads drive the worker, this thread only checks now and
// then whether they still do. Otherwise it sleeps on the worker's descriptor.
//
// Threads: any, `finish` as the last call.
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

  // DW_OK, or why the thread cannot start. Once is enough.
  int32_t start(dw_error* error);
  bool started() const { return started_.load(std::memory_order_acquire); }
  void finish();
  // Called by a thread that leaves the worker: this thread drives it from now
  // on.
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
