// The thread that runs a communicator's asynchronous composed operations.
//
// Threads: `add` from one thread at a time; the tasks run in this one.
#ifndef DISTWRAP_SRC_ALGO_COMPOSE_OPERATION_THREAD_H_
#define DISTWRAP_SRC_ALGO_COMPOSE_OPERATION_THREAD_H_

#include "algo/below/cell.h"
#include "algo/compose/execution.h"
#include "algo/compose/kept_op.h"
#include "base/mutex.h"
#include "distwrap/abi/moe.h"
#include "distwrap/abi/plugin.h"

#include <deque>
#include <memory>
#include <thread>

namespace distwrap::algo::compose {

class Comm;

// An operation with copies of everything that it borrows, and the cell to
// complete.
class Task : private KeptOp {
 public:
  Task(const dw_op& op, int size, bool composed, dw_work* work, Gate* gate,
       int64_t now_ns);

  const dw_op& op() const { return get(); }
  bool composed() const { return composed_; }
  dw_work* work() const { return work_; }
  Gate* gate() const { return gate_; }

 private:
  dw_ext_moe rows_;
  dw_ext_moe_sum sums_;
  const bool composed_;
  dw_work* const work_;  // the cell to complete; null when the caller waits
  Gate* const gate_;
};

class OperationThread {
 public:
  explicit OperationThread(Comm& comm);
  // Before the first `add`. DW_OK, or the error of a thread that cannot start.
  int32_t start(dw_error* error);
  // Only after `stop` has told that it is idle.
  ~OperationThread();
  OperationThread(const OperationThread&) = delete;
  OperationThread& operator=(const OperationThread&) = delete;

  void add(std::unique_ptr<Task> task);
  // Tells the thread to end; returns whether it has ended by the deadline.
  bool stop(Deadline deadline);
  Execution& execution() { return execution_; }

 private:
  void loop();

  Comm& comm_;
  Execution execution_;
  base::Mutex mutex_;
  base::CondVar changed_, ended_;
  std::deque<std::unique_ptr<Task>> tasks_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  bool over_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace distwrap::algo::compose

#endif  // DISTWRAP_SRC_ALGO_COMPOSE_OPERATION_THREAD_H_
