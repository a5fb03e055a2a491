#include "comm/watchdog.h"

#include "base/guard_door.h"
#include "base/thread.h"

#include <algorithm>
#include <new>
#include <poll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <tuple>
#include <unistd.h>
#include <utility>
#include <vector>

namespace distwrap::comm {
namespace {

// The pause before a watch is called again that had no memory to report its
// end.
constexpr absl::Duration kRetry = absl::Milliseconds(10);

}  // namespace

Watchdog::~Watchdog() {
  {
    base::MutexLock lock(mutex_);
    stop_ = true;
    wake_for(Deadline::at_ns(0));
  }
  if (thread_.joinable()) thread_.join();
}

absl::StatusOr<std::shared_ptr<Watchdog>> Watchdog::make() {
  std::shared_ptr<Watchdog> made(new Watchdog);
  absl::StatusOr<std::thread> thread =
      base::start_thread("dw-watchdog", [watchdog = made.get()] {
        const base::OwnWork own_work;
        watchdog->run();
      });
  if (!thread.ok()) return thread.status();
  made->thread_ = *std::move(thread);
  if (absl::Status status = made->callbacks_.start(); !status.ok())
    return status;
  return made;
}

void Watchdog::add(Watch& watch, Deadline at, int fd) {
  base::MutexLock lock(mutex_);
  // Without a bell, descriptors are not polled and only deadlines are kept.
  if (fd >= 0 && !bell_.is_open())
    bell_ = base::Descriptor(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  watch.fd_ = bell_.is_open() ? fd : -1;
  link(watch, at);
  if (at.ns() < asleep_until_.ns()) {
    ++wake_ups_;
    wake_for(at);
  } else if (watch.fd_ >= 0) {
    wake_for(asleep_until_);
  }
}

void Watchdog::hasten(Watch& watch) {
  base::MutexLock lock(mutex_);
  if (running_ == &watch) hastened_ = true;
  if (!watch.linked_) return;
  watch.at_ = Deadline::at_ns(0);
  wake_for(watch.at_);
}

void Watchdog::wake_for(Deadline at) {
  asleep_until_ = at;
  changed_.notify_all();
  const uint64_t one = 1;
  // A full eventfd wakes the thread too.
  if (polling_) std::ignore = write(bell_.get(), &one, sizeof one);
}

int Watchdog::wake_ups() {
  base::MutexLock lock(mutex_);
  return wake_ups_;
}

void Watchdog::remove(Watch& watch) {
  base::MutexLock lock(mutex_);
  if (running_ == &watch && thread_.get_id() == std::this_thread::get_id()) {
    running_ = nullptr;  // the watch may be gone when `expired` returns
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
  if (watch.fd_ >= 0) ++descriptors_;
}

void Watchdog::unlink(Watch& watch) {
  if (watch.next_ != nullptr) watch.next_->previous_ = watch.previous_;
  if (watch.previous_ != nullptr)
    watch.previous_->next_ = watch.next_;
  else
    first_ = watch.next_;
  watch.linked_ = false;
  if (watch.fd_ >= 0) --descriptors_;
}

Watchdog::Watch* Watchdog::nearest() {
  Watch* best = first_;
  for (Watch* watch = first_; watch != nullptr; watch = watch->next_)
    if (watch->at_.ns() < best->at_.ns()) best = watch;
  return best;
}

void Watchdog::sleep() {
  if (descriptors_ == 0) {
    changed_.wait_until(mutex_, asleep_until_);
    return;
  }
  try {
    poll_descriptors();
  } catch (const std::bad_alloc&) {
    changed_.wait_until(mutex_, Deadline::after(kRetry));
  }
}

// A watch whose descriptor is readable is due at once.
void Watchdog::poll_descriptors() {
  std::vector<pollfd> polled = {{bell_.get(), POLLIN, 0}};
  for (const Watch* watch = first_; watch != nullptr; watch = watch->next_)
    if (watch->fd_ >= 0) polled.push_back({watch->fd_, POLLIN, 0});
  const bool for_ever = asleep_until_.is_never();
  const int64_t left_ns =
      for_ever ? 0
               : std::max<int64_t>(asleep_until_.ns() - Deadline::now_ns(), 0);
  const timespec left = {left_ns / 1'000'000'000, left_ns % 1'000'000'000};
  polling_ = true;
  mutex_.unlock();
  ppoll(polled.data(), polled.size(), for_ever ? nullptr : &left, nullptr);
  mutex_.lock();
  polling_ = false;
  uint64_t rung;
  std::ignore = read(bell_.get(), &rung, sizeof rung);
  for (size_t i = 1; i < polled.size(); ++i)
    for (Watch* watch = first_; watch != nullptr && polled[i].revents != 0;
         watch = watch->next_)
      if (watch->fd_ == polled[i].fd) watch->at_ = Deadline::at_ns(0);
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
      sleep();
      continue;
    }
    unlink(*watch);
    running_ = watch;
    mutex_.unlock();
    Deadline again;
    try {
      again = watch->expired();
    } catch (const std::bad_alloc&) {
      again = Deadline::after(kRetry);
    }
    mutex_.lock();
    if (std::exchange(hastened_, false)) again = Deadline::at_ns(0);
    if (running_ == watch && !again.is_never()) link(*watch, again);
    running_ = nullptr;
    changed_.notify_all();
  }
}

}  // namespace distwrap::comm
