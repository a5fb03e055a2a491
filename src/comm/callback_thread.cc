#include "comm/callback_thread.h"

#include "base/quiet_thread.h"

#include <utility>

namespace distwrap::comm {

CallbackThread::CallbackThread() : queue_(std::make_shared<Queue>()) {}

CallbackThread::~CallbackThread() {
  std::thread thread;
  {
    base::MutexLock lock(mutex_);
    thread = std::move(thread_);
  }
  {
    base::MutexLock lock(queue_->mutex);
    queue_->stop = true;
    queue_->changed.notify_all();
  }
  if (thread.get_id() == std::this_thread::get_id())
    thread.detach();
  else if (thread.joinable())
    thread.join();
}

void CallbackThread::post(std::function<void()> task) {
  {
    base::MutexLock lock(queue_->mutex);
    queue_->tasks.push_back(std::move(task));
    queue_->changed.notify_all();
  }
  base::MutexLock lock(mutex_);
  if (!thread_.joinable())
    thread_ = base::quiet_thread([queue = queue_] { run(*queue); });
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
    task();
  }
}

}  // namespace distwrap::comm
