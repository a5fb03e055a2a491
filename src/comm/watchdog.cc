#include "comm/watchdog.h"

#include "base/quiet_thread.h"

namespace distwrap::comm {

Watchdog::~Watchdog() {
  std::thread thread;
  {
    base::MutexLock lock(mutex_);
    stop_ = true;
    thread = std::move(thread_);
    changed_.notify_all();
  }
  if (thread.joinable()) thread.join();
}

void Watchdog::start() {
  base::MutexLock lock(mutex_);
  if (!thread_.joinable()) thread_ = base::quiet_thread([this] { run(); });
}

void Watchdog::add(Watch& watch, Deadline at) {
  base::MutexLock lock(mutex_);
  link(watch, at);
  if (!thread_.joinable()) thread_ = base::quiet_thread([this] { run(); });
  if (at.ns() < asleep_until_.ns()) {
    asleep_until_ = at;
    ++wake_ups_;
    changed_.notify_all();
  }
}

int Watchdog::wake_ups() {
  base::MutexLock lock(mutex_);
  return wake_ups_;
}

void Watchdog::remove(Watch& watch) {
  base::MutexLock lock(mutex_);
  if (running_ == &watch && thread_.get_id() == std::this_thread::get_id()) {
    running_ = nullptr;  // it may be gone when `expired` returns
    return;
  }
  while (running_ == &watch) changed_.wait(mutex_);
  if (watch.linked_) unlink(watch);
}

void Watchdog::link(Watch& watch, Deadline at) {
  watch.at_ = at;
  watch.previous_ = nullptr;
  watch.next_ = first_;
  if (first_ != nullptr) first_->previous_ = &watch;
  first_ = &watch;
  watch.linked_ = true;
}

void Watchdog::unlink(Watch& watch) {
  if (watch.next_ != nullptr) watch.next_->previous_ = watch.previous_;
  if (watch.previous_ != nullptr)
    watch.previous_->next_ = watch.next_;
  else
    first_ = watch.next_;
  watch.linked_ = false;
}

Watchdog::Watch* Watchdog::nearest() {
  Watch* best = first_;
  for (Watch* watch = first_; watch != nullptr; watch = watch->next_)
    if (watch->at_.ns() < best->at_.ns()) best = watch;
  return best;
}

void Watchdog::run() {
  base::MutexLock lock(mutex_);
  while (!stop_) {
    Watch* const watch = nearest();
    if (watch == nullptr || !watch->at_.passed()) {
      if (watch != nullptr)
        asleep_until_ = watch->at_;
      else if (asleep_until_.passed())
        asleep_until_ = Deadline::never();
      changed_.wait_until(mutex_, asleep_until_);
      continue;
    }
    unlink(*watch);
    running_ = watch;
    mutex_.unlock();
    const Deadline again = watch->expired();
    mutex_.lock();
    if (running_ == watch && !again.is_never()) link(*watch, again);
    running_ = nullptr;
    changed_.notify_all();
  }
}

}  // namespace distwrap::comm
