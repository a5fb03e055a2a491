// The thread of a communicator's asynchronous operations, made at the first of
// them. Collectives run in it one after the other, in the order in which they
// came; messages move while there is nothing else to do, and while a collective
// waits.
//
// Threads: any; `finish` when nobody calls anything else.
#ifndef DISTWRAP_BACKENDS_SHM_WORKER_H_
#define DISTWRAP_BACKENDS_SHM_WORKER_H_

#include "call.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

namespace shm_backend {

struct Comm;

// Where somebody waits for operations that run elsewhere.
class Gate {
 public:
  void expect(int n) { open_ += n; }
  void pass(int32_t code, const dw_error& error);
  // Until all have passed. The first failure, else DW_OK.
  int32_t wait(dw_error* error);

 private:
  std::mutex mutex_;
  std::condition_variable passed_;
  int open_ = 0;
  int32_t code_ = DW_OK;
  dw_error error_ = {};
};

class Worker {
 public:
  explicit Worker(Comm* comm) : comm_(comm) {}
  ~Worker() { finish(); }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  // Makes the thread, if there is none.
  void start();
  // Ends the thread, after the operations that it was given.
  void finish();

  // Either completes the work or passes the gate.
  void add(Call&& call, dw_work* work, Gate* gate);
  // Whether everything that was added has ended: the caller may run
  // collectives itself.
  bool idle() const { return open_.load(std::memory_order_acquire) == 0; }
  // A message with a work has begun: see to it, if it stays open.
  void look_after_messages();

 private:
  struct Task {
    Call call;
    dw_work* work;
    Gate* gate;
  };

  void start_locked();
  void loop();
  void doze(std::unique_lock<std::mutex>& lock);
  void drive(std::unique_lock<std::mutex>& lock);
  void run_next(std::unique_lock<std::mutex>& lock);

  // How long, and how often after a message has begun: to wake a thread each
  // time costs more than most messages.
  static constexpr std::chrono::microseconds kDoze{200};
  static constexpr int kDozes = 50;

  Comm* const comm_;
  std::atomic<uint32_t> open_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Task> tasks_;
  std::atomic<bool> ending_ = false;
  int dozes_ = 0;  // that are left
  std::thread thread_;
};

}  // namespace shm_backend

#endif  // DISTWRAP_BACKENDS_SHM_WORKER_H_
