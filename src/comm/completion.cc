#include "comm/completion.h"

#include "base/error.h"
#include "base/log.h"

#include <absl/strings/str_cat.h>

#include <errno.h>
#include <exception>
#include <sched.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <utility>

namespace distwrap::comm {
namespace {

// Polls of a backend that only works when asked: before a waiter yields between
// polls, and before it naps.
constexpr int kOwnLooks = 20, kLooks = 64;

// Exceptions of users' code end here.
void call(const Completion::Callback& f, const absl::Status& status) {
  try {
    f(status);
  } catch (const std::exception& error) {
    base::log(base::LogLevel::kError,
              absl::StrCat("a callback of a Work threw: ", error.what()));
  } catch (...) {
    base::log(base::LogLevel::kError, "a callback of a Work threw");
  }
}

void make_readable(int fd) {
  const uint64_t one = 1;
  // A fresh counter takes it.
  [[maybe_unused]] const ssize_t written = write(fd, &one, sizeof one);
}

}  // namespace

Completion::~Completion() { close_event(); }

absl::Status Completion::status() const {
  base::MutexLock lock(mutex_);
  return error_;
}

absl::Status Completion::wait(Deadline deadline) {
  if (is_of_parent() && !ended())
    return base::make_error(base::of_parent("the operation"));
  run_here(deadline);
  Naps naps;
  for (int looks = 0; !ended();) {
    const bool again = poll();
    if (again && ++looks < kLooks) {
      if (looks > kOwnLooks) sched_yield();
      continue;
    }
    const Deadline until = naps.next(again, deadline);
    {
      base::MutexLock lock(mutex_);
      if (ended() || ended_.wait_until(mutex_, until) || ended()) continue;
    }
    if (deadline.passed()) return expired_wait();
  }
  return status();
}

absl::Status Completion::cancel() {
  const bool has_ended = ended();
  return base::make_error(
      {.reason = Reason::kAlreadySubmitted,
       .what = has_ended      ? "the operation has ended"
               : can_cancel() ? "the group has made another collective after it"
                              : "the backend has the operation already",
       .op = "cancel",
       .next_step = has_ended ? "look at its status"
                              : "wait for it, or abort the group"});
}

void Completion::set_queued(bool queued) {
  WorkState before = queued ? WorkState::kRunning : WorkState::kQueued;
  state_.compare_exchange_strong(
      before, queued ? WorkState::kQueued : WorkState::kRunning);
}

absl::Status Completion::wait_stream(const Stream& /*stream*/) {
  return base::make_error(
      {.reason = Reason::kUnsupported,
       .what = "the operation's backend has no streams that could wait for it",
       .op = "wait_stream",
       .next_step = "call wait, which blocks the host"});
}

bool Completion::listen(Listeners& listeners) {
  base::MutexLock lock(mutex_);
  if (ended()) return false;
  listeners_.splice(listeners_.end(), listeners, listeners.begin());
  return true;
}

void Completion::unlisten(const Listener* listener) {
  base::MutexLock lock(mutex_);
  for (auto kept = listeners_.begin(); kept != listeners_.end(); ++kept) {
    if (kept->get() != listener) continue;
    listeners_.erase(kept);
    return;
  }
}

void Completion::on_done(Callback f) {
  {
    base::MutexLock lock(mutex_);
    callbacks_.push_back(std::move(f));
    if (!ended() || calling_) return;
    calling_ = true;
  }
  run_callbacks();
}

void Completion::run_callbacks() {
  for (;;) {
    Callback f;
    absl::Status status;
    {
      base::MutexLock lock(mutex_);
      if (callbacks_.empty()) {
        calling_ = false;
        return;
      }
      f = std::move(callbacks_.front());
      callbacks_.pop_front();
      status = error_;
    }
    call(f, status);
  }
}

void Completion::end(WorkState state, absl::Status error,
                     CallbackThread& callbacks) {
  Listeners listeners;
  bool has_callbacks = false;
  {
    base::MutexLock lock(mutex_);
    if (ended()) return;
    error_ = std::move(error);
    state_.store(state, std::memory_order_release);
    listeners.swap(listeners_);
    if (!callbacks_.empty()) {
      has_callbacks = calling_ = true;
      references_.fetch_add(kTask, std::memory_order_relaxed);
    }
    if (event_fd_ >= 0) make_readable(event_fd_);
    ended_.notify_all();
  }
  for (const auto& listener : listeners) listener->ended(callbacks);
  const auto run = [this] {
    run_callbacks();
    release_task();
  };
  // Runs here if no thread can take it.
  if (has_callbacks && !callbacks.post(run)) run();
}

absl::StatusOr<int> Completion::event_fd() {
  base::MutexLock lock(mutex_);
  if (event_fd_ < 0) {
    event_fd_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (event_fd_ < 0)
      return base::make_error(
          {.reason = Reason::kResourceLimit,
           .what = "no descriptor is left for the event of a Work",
           .op = "event_fd",
           .cause = base::errno_text(errno),
           .next_step = "raise the limit of open files, or wait for the Work"});
    if (ended()) make_readable(event_fd_);
  }
  return event_fd_;
}

void Completion::close_event() {
  base::MutexLock lock(mutex_);
  if (event_fd_ >= 0) close(event_fd_);
  event_fd_ = -1;
}

void Completion::release() {
  int64_t before = references_.load(std::memory_order_acquire);
  // One of several handles is dropped without further work.
  while (before % kTask > kHandle)
    if (references_.compare_exchange_weak(before, before - kHandle,
                                          std::memory_order_acq_rel))
      return;
  // The last handle is gone, so none can be copied.
  close_event();
  if (references_.fetch_sub(kHandle, std::memory_order_acq_rel) == kHandle)
    delete this;
}

void Completion::release_task() {
  if (references_.fetch_sub(kTask, std::memory_order_acq_rel) == kTask)
    delete this;
}

}  // namespace distwrap::comm
