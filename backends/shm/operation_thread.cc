#include "operation_thread.h"

#include "backend.h"
#include "run.h"
#include "sdk/thread.h"

#include <algorithm>
#include <utility>

namespace shm_backend {

void Gate::pass(int32_t code, const dw_error& error) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (code != DW_OK && code_ == DW_OK) {
    code_ = code;
    error_ = error;
  }
  if (--open_ == 0) passed_.notify_all();
}

int32_t Gate::wait(dw_error* error) {
  std::unique_lock<std::mutex> lock(mutex_);
  passed_.wait(lock, [this] { return open_ == 0; });
  if (code_ != DW_OK && error != nullptr) *error = error_;
  return code_;
}

int32_t OperationThread::start(dw_error* error) {
  std::lock_guard<std::mutex> lock(mutex_);
  return start_locked(error);
}

int32_t OperationThread::start_locked(dw_error* error) {
  if (thread_.joinable()) return DW_OK;
  comm_->moving->add(comm_);
  const int32_t code = dw_sdk::start_thread(
      &thread_, "dw-shm", [this] { loop(); }, error);
  if (code != DW_OK) comm_->moving->remove(comm_);
  return code;
}

void OperationThread::finish() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (!thread_.joinable()) return;
    ending_ = true;
  }
  changed_.notify_one();
  comm_->room.ring(comm_->rank);
  thread_.join();
  comm_->moving->remove(comm_);
}

int32_t OperationThread::add(Task&& task, dw_error* error) {
  const bool at_once = task.at_once;
  bool sleeps = false;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (int32_t code = start_locked(error)) return code;
    tasks_.push_back(std::move(task));
    open_.fetch_add(1, std::memory_order_relaxed);
    due_ |= at_once;
    sleeps = std::exchange(dozes_, kDozes) == 0;
  }
  if (at_once || sleeps) changed_.notify_one();
  if (comm_->messages.has_open_works()) comm_->room.ring(comm_->rank);
  return DW_OK;
}

void OperationThread::look_after_messages() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (std::exchange(dozes_, kDozes) != 0) return;
  }
  changed_.notify_one();
}

void OperationThread::loop() {
  std::unique_lock<std::mutex> lock(mutex_);
  for (;;) {
    const bool may_run = !tasks_.empty() && !running_;
    if (may_run && (due_ || ending_))
      run_next(lock);
    else if (ending_ && !running_)
      return;
    else if (may_run || dozes_ != 0 || comm_->messages.has_open_works())
      doze(lock);
    else
      changed_.wait(lock);
  }
}

// A caller that waits for its messages moves them. Messages that were there
// before and still are have no waiter, or none in a hurry.
void OperationThread::doze(std::unique_lock<std::mutex>& lock) {
  const uint64_t begun = comm_->messages.begun_works();
  if (changed_.wait_for(lock, kDoze) == std::cv_status::no_timeout) return;
  if (dozes_ != 0) --dozes_;
  due_ = !tasks_.empty();
  if (due_) return;
  const auto since =
      static_cast<int64_t>(comm_->messages.begun_works() - begun);
  if (comm_->messages.open_works() > since) drive(lock);
}

void OperationThread::drive(std::unique_lock<std::mutex>& lock) {
  lock.unlock();
  drive_messages(
      comm_,
      [](const void* self) {
        const auto* const thread = static_cast<const OperationThread*>(self);
        return !thread->idle() || thread->ending_;
      },
      this);
  lock.lock();
}

bool OperationThread::run_here(uint64_t seq) {
  return run_until([seq](const Task& task) { return task.seq == seq; });
}

bool OperationThread::run_here(const Gate* gate) {
  return run_until([gate](const Task& task) { return task.gate == gate; });
}

template <class F>
bool OperationThread::run_until(const F& is_meant) {
  std::unique_lock<std::mutex> lock(mutex_);
  bool ran = false;
  while (std::any_of(tasks_.begin(), tasks_.end(), is_meant)) {
    if (running_) {
      due_ = true;  // the task begins when that thread has done
      return false;
    }
    run_next(lock);
    ran = true;
  }
  const bool are_due = due_;
  lock.unlock();
  if (are_due) changed_.notify_one();
  return ran;
}

void OperationThread::run_next(std::unique_lock<std::mutex>& lock) {
  const Task task = std::move(tasks_.front());
  tasks_.pop_front();
  running_ = true;
  due_ &= !tasks_.empty();
  lock.unlock();
  dw_error error = {};
  int32_t code = comm_->failure.check(&error);
  if (code == DW_OK)
    code = dw_sdk::guarded("shm: an operation", &error,
                           [&] { return run(comm_, task.call, &error); });
  // The caller may run the next operation itself from here on.
  open_.fetch_sub(1, std::memory_order_release);
  if (task.gate != nullptr)
    task.gate->pass(code, error);
  else
    comm_->host->complete(task.work, code, code == DW_OK ? nullptr : &error);
  lock.lock();
  running_ = false;
}

}  // namespace shm_backend
