#include "comm/callback_thread.h"

#include "base/exceptions.h"
#include "base/log.h"
#include "base/thread.h"

#include <new>
#include <utility>

namespace distwrap::comm {

CallbackThread::CallbackThread() : queue_(std::make_shared<Queue>()) {}

CallbackThread::~CallbackThread() {
  {
    base::MutexLock lock(queue_->mutex);
    queue_->stop = true;
    queue_->changed.notify_all();
  }
  if (thread_.get_id() == std::this_thread::get_id())
    thread_.detach();
  else if (thread_.joinable())
    thread_.join();
}

absl::Status CallbackThread::start() {
  absl::StatusOr<std::thread> thread =
      base::start_thread("dw-callbacks", [queue = queue_] { run(*queue); });
  if (thread.ok()) thread_ = *std::move(thread);
  return thread.status();
}

bool CallbackThread::post(std::function<void()> task) try {
  base::MutexLock lock(queue_->mutex);
  queue_->tasks.push_back(std::move(task));
  queue_->changed.notify_all();
  return true;
} catch (const std::bad_alloc&) {
  return false;
}

void CallbackThread::run(Queue& queue) {
  for (;;) {
    std::function<void()> task;
    {
      base::MutexLock lock(queue.mutex);
      while (queue.tasks.empty() && !queue.stop)
        queue.changed.wait(queue.mutex);
      if (queue.tasks.empty()) return;
      task = std::move(queue.tasks.front());
      queue.tasks.pop_front();
    }
    const absl::Status ran = base::guarded("callback", [&] {
      task();
      return absl::OkStatus();
    });
    if (!ran.ok()) base::log(base::LogLevel::kError, ran.message());
  }
}

}  // namespace distwrap::comm
