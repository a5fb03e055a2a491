#include "worker.h"

#include "backend.h"
#include "run.h"

#include <pthread.h>
#include <signal.h>
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

void Worker::start() {
  std::lock_guard<std::mutex> lock(mutex_);
  start_locked();
}

void Worker::start_locked() {
  if (thread_.joinable()) return;
  // Signals are for the threads of the program.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    thread_ = std::thread([this] { loop(); });
  } catch (...) {
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    throw;
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  comm_->moving->add(comm_);
}

void Worker::finish() {
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

void Worker::add(Call&& call, dw_work* work, Gate* gate) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    start_locked();
    tasks_.push_back({std::move(call), work, gate});
    open_.fetch_add(1, std::memory_order_relaxed);
  }
  changed_.notify_one();
  if (comm_->messages.has_open_works()) comm_->room.ring(comm_->rank);
}

void Worker::look_after_messages() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (std::exchange(dozes_, kDozes) != 0) return;
  }
  changed_.notify_one();
}

void Worker::loop() {
  std::unique_lock<std::mutex> lock(mutex_);
  for (;;) {
    if (!tasks_.empty())
      run_next(lock);
    else if (ending_)
      return;
    else if (dozes_ != 0 || comm_->messages.has_open_works())
      doze(lock);
    else
      changed_.wait(lock);
  }
}

// Whoever waits for his messages moves them. What was there before and still
// is nobody waits for, or not in such a hurry.
void Worker::doze(std::unique_lock<std::mutex>& lock) {
  const uint64_t begun = comm_->messages.begun_works();
  if (changed_.wait_for(lock, kDoze) == std::cv_status::no_timeout) return;
  if (dozes_ != 0) --dozes_;
  const auto since =
      static_cast<int64_t>(comm_->messages.begun_works() - begun);
  if (comm_->messages.open_works() > since) drive(lock);
}

void Worker::drive(std::unique_lock<std::mutex>& lock) {
  lock.unlock();
  drive_messages(
      comm_,
      [](const void* self) {
        const auto* const worker = static_cast<const Worker*>(self);
        return !worker->idle() || worker->ending_;
      },
      this);
  lock.lock();
}

void Worker::run_next(std::unique_lock<std::mutex>& lock) {
  const Task task = std::move(tasks_.front());
  tasks_.pop_front();
  lock.unlock();
  dw_error error = {};
  int32_t code = comm_->failure.check(&error);
  if (code == DW_OK) code = run(comm_, task.call, &error);
  // From here on the caller may run the next one itself.
  open_.fetch_sub(1, std::memory_order_release);
  if (task.gate != nullptr)
    task.gate->pass(code, error);
  else
    comm_->host->complete(task.work, code, code == DW_OK ? nullptr : &error);
  lock.lock();
}

}  // namespace shm_backend
