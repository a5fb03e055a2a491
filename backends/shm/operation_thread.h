// A communicator's asynchronous operations, and their thread, made at the first
// of them. Collectives run one after the other, in the order in which they were
// added. Who waits for one runs it, and those before it, unless the thread has
// begun; the thread leaves short ones a moment for that, since handing a call
// to a thread and back takes longer than most calls. The thread moves messages
// when it has nothing else to do, and while a collective waits.
//
// Threads: any; `finish` only when no thread calls anything else.
#ifndef DISTWRAP_BACKENDS_SHM_OPERATION_THREAD_H_
#define DISTWRAP_BACKENDS_SHM_OPERATION_THREAD_H_

#include "call.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

namespace shm_backend {

struct Comm;

// A caller waits here for operations that run in another thread.
class Gate {
 public:
  void expect(int n) { open_ += n; }
  void pass(int32_t code, const dw_error& error);
  // Waits until all operations have passed. The first failure, else DW_OK.
  int32_t wait(dw_error* error);

 private:
  std::mutex mutex_;
  std::condition_variable passed_;
  int open_ = 0;
  int32_t code_ = DW_OK;
  dw_error error_ = {};
};

class OperationThread {
 public:
  explicit OperationThread(Comm* comm) : comm_(comm) {}
  ~OperationThread() { finish(); }
  OperationThread(const OperationThread&) = delete;
  OperationThread& operator=(const OperationThread&) = delete;

  // Makes the thread, if there is none. DW_OK, or why it cannot start.
  int32_t start(dw_error* error);
  // Ends the thread, after the operations that it was given.
  void finish();

  // An operation, whose end completes `work` or passes `gate`.
  struct Task {
    EngineOp call;
    dw_work* work = nullptr;
    Gate* gate = nullptr;
    uint64_t seq = 0;      // number among the group's collectives, or 0
    bool at_once = false;  // run even when nobody waits for it
  };
  // Adds a task, which begins at once or when it is waited for, at most kDoze
  // later. DW_OK, or why there is no thread for it.
  int32_t add(Task&& task, dw_error* error);
  // Run the task, and those before it, unless another thread runs one of them.
  // Whether they did.
  bool run_here(uint64_t seq);
  bool run_here(const Gate* gate);
  // Whether all added operations have ended; then the caller may run
  // collectives itself.
  bool idle() const { return open_.load(std::memory_order_acquire) == 0; }
  // Called when a message with a work has begun: moves it if it stays open.
  void look_after_messages();

 private:
  int32_t start_locked(dw_error* error);
  template <class F>
  bool run_until(const F& is_meant);
  void loop();
  void doze(std::unique_lock<std::mutex>& lock);
  void drive(std::unique_lock<std::mutex>& lock);
  void run_next(std::unique_lock<std::mutex>& lock);

  // The thread sleeps kDoze up to kDozes times after a message has begun and
  // moves messages in between, since waking a thread each time costs more than
  // most messages.
  static constexpr std::chrono::microseconds kDoze{200};
  static constexpr int kDozes = 50;

  Comm* const comm_;
  std::atomic<uint32_t> open_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Task> tasks_;
  bool running_ = false;  // a thread runs a task
  bool due_ = false;      // the tasks have to begin, whoever waits
  std::atomic<bool> ending_ = false;
  int dozes_ = 0;  // dozes that are left
  std::thread thread_;
};

}  // namespace shm_backend

#endif  // DISTWRAP_BACKENDS_SHM_OPERATION_THREAD_H_
