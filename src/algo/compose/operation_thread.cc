#include "algo/compose/operation_thread.h"

#include "algo/compose/comm.h"
#include "base/guard_door.h"
#include "sdk/moe_rows.h"
#include "sdk/thread.h"

#include <algorithm>
#include <utility>

namespace distwrap::algo::compose {

Task::Task(const dw_op& op, int size, bool composed, dw_work* work, Gate* gate,
           int64_t now_ns)
    : op_(op), composed_(composed), work_(work), gate_(gate) {
  op_.flags &= ~uint32_t{DW_FLAG_CALLER_WAITS};
  // The time limit counts from the submission.
  if (op_.deadline_ns == 0 && op_.timeout_ns != 0 &&
      __builtin_add_overflow(now_ns, op_.timeout_ns, &op_.deadline_ns))
    op_.deadline_ns = 0;
  op_.timeout_ns = 0;
  // Extensions are borrowed for the call; those that are not required may be
  // skipped. `plan` has read the rows.
  const dw_ext* const rows = dw_sdk::moe_extension_of(op);
  op_.next = nullptr;
  if (rows != nullptr && dw_read_struct(&rows_, sizeof rows_, rows,
                                        DW_EXT_MOE_SIZE_1_2) == DW_OK) {
    rows_.head.next = nullptr;
    op_.next = &rows_.head;
  }
  keep(&op_.in, static_cast<size_t>(size));
  keep(&op_.out, static_cast<size_t>(size));
}

void Task::keep(dw_buf* buf, size_t size) {
  for (const int64_t** list : {&buf->counts, &buf->displs}) {
    if (*list == nullptr) continue;
    numbers_.push_back(std::make_unique<int64_t[]>(size));
    std::copy_n(*list, size, numbers_.back().get());
    *list = numbers_.back().get();
  }
  if (buf->parts == nullptr) return;
  addresses_.push_back(std::make_unique<void*[]>(size));
  std::copy_n(buf->parts, size, addresses_.back().get());
  buf->parts = addresses_.back().get();
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
