#include "algo/compose/operation_thread.h"

#include "algo/compose/comm.h"
#include "base/guard_door.h"
#include "sdk/moe_rows.h"
#include "sdk/thread.h"

#include <utility>

namespace distwrap::algo::compose {

Task::Task(const dw_op& op, int size, bool composed, dw_work* work, Gate* gate,
           int64_t now_ns)
    : KeptOp(op, size), composed_(composed), work_(work), gate_(gate) {
  op_.flags &= ~uint32_t{DW_FLAG_CALLER_WAITS};
  // The time limit counts from the submission.
  if (op_.deadline_ns == 0 && op_.timeout_ns != 0 &&
      __builtin_add_overflow(now_ns, op_.timeout_ns, &op_.deadline_ns))
    op_.deadline_ns = 0;
  op_.timeout_ns = 0;
  // `plan` has read the rows; other extensions may be skipped.
  const dw_ext* const rows = dw_sdk::moe_extension_of(op);
  if (rows != nullptr && dw_read_struct(&rows_, sizeof rows_, rows,
                                        DW_EXT_MOE_SIZE_1_2) == DW_OK) {
    rows_.head.next = nullptr;
    op_.next = &rows_.head;
    if (dw_read_struct(&sums_, sizeof sums_, dw_sdk::moe_sum_extension_of(op),
                       DW_EXT_MOE_SUM_SIZE_1_2) == DW_OK) {
      sums_.head.next = nullptr;
      rows_.head.next = &sums_.head;
    }
  }
}

OperationThread::OperationThread(Comm& comm)
    : comm_(comm), execution_(comm, false) {}

int32_t OperationThread::start(dw_error* error) {
  return dw_sdk::start_thread(
      &thread_, "dw-compose", [this] { loop(); }, error);
}

OperationThread::~OperationThread() {
  if (thread_.joinable()) thread_.join();
}

void OperationThread::add(std::unique_ptr<Task> task) {
  base::MutexLock lock(mutex_);
  tasks_.push_back(std::move(task));
  changed_.notify_one();
}

bool OperationThread::stop(Deadline deadline) {
  base::MutexLock lock(mutex_);
  stopping_ = true;
  changed_.notify_one();
  while (!over_)
    if (!ended_.wait_until(mutex_, deadline)) return over_;
  return true;
}

void OperationThread::loop() {
  const base::OwnWork own_work;
  for (;;) {
    std::unique_ptr<Task> task;
    {
      base::MutexLock lock(mutex_);
      while (tasks_.empty() && !stopping_) changed_.wait(mutex_);
      if (tasks_.empty()) {
        over_ = true;
        ended_.notify_all();
        return;
      }
      task = std::move(tasks_.front());
      tasks_.pop_front();
    }
    comm_.run_task(*task);
  }
}

}  // namespace distwrap::algo::compose
