// A communicator breaks and ends here: by failed calls, by findings of the
// board, or by its owner.
#include "base/error.h"
#include "base/exceptions.h"
#include "base/log.h"
#include "comm/communicator.h"
#include "comm/op_build.h"
#include "comm/window.h"

#include <algorithm>
#include <new>
#include <optional>
#include <sys/eventfd.h>
#include <time.h>
#include <utility>
#include <vector>

namespace distwrap::comm {
namespace {

// After an abort, calls of other threads have this long to leave before the
// backend's communicator is taken away.
constexpr absl::Duration kLeaveAfterAbort = absl::Milliseconds(400);

// Leak checkers find here the communicators that backends have not released.
void keep_for_ever(BackendCommunicator* communicator) {
  static base::Mutex mutex;
  static auto* const kept = new std::vector<BackendCommunicator*>;
  base::MutexLock lock(mutex);
  kept->push_back(communicator);
}

}  // namespace

void BackendCommunicator::abort(ErrorInfo cause) {
  const dw_error why = abi_error(cause);
  absl::Status shown;
  if (identity_.hooks != nullptr) shown = base::make_error(cause);
  bool breaks = false;
  {
    base::MutexLock lock(mutex_);
    Life open = Life::kOpen;
    breaks = life_.compare_exchange_strong(open, Life::kBroken);
    if (breaks) {
      first_cause_ = std::move(cause);
      for (const int alarm : alarms_) eventfd_write(alarm, 1);
    }
    lock_.shut();
    if (abort_ != Abort::kNone || destroyed_) return;
    abort_ = Abort::kRunning;
  }
  // Called without the lock: the backend may complete operations in here.
  if (board_ != nullptr) board_->break_off();
  if (identity_.news != nullptr) identity_.news->break_off();
  backend_->api().comm_abort(comm_, &why);
  if (has_queued()) backend_->queue().try_all();
  try {
    if (breaks && identity_.hooks != nullptr)
      identity_.hooks->broke(shown, watchdog_->callbacks());
    // Done after the peers were told, and before another thread can free what
    // this uses.
    if (breaks && identity_.recorded.recording != nullptr)
      identity_.recorded.recording->save_after_failure();
  } catch (const std::bad_alloc&) {  // the group is broken all the same
  }
  base::MutexLock lock(mutex_);
  abort_ = Abort::kDone;
  changed_.notify_all();
}

std::optional<ErrorInfo> BackendCommunicator::failure() const {
  base::MutexLock lock(mutex_);
  if (!is_broken()) return std::nullopt;
  return first_cause_;
}

void BackendCommunicator::add_alarm(int eventfd) {
  base::MutexLock lock(mutex_);
  alarms_.push_back(eventfd);
  if (is_broken()) eventfd_write(eventfd, 1);
}

void BackendCommunicator::remove_alarm(int eventfd) {
  base::MutexLock lock(mutex_);
  alarms_.erase(std::find(alarms_.begin(), alarms_.end(), eventfd));
}

void BackendCommunicator::abort_everywhere(ErrorInfo cause, Deadline tell) {
  if (life_.load(std::memory_order_acquire) != Life::kOpen) return;
  if (!tell.passed()) first_failure_.agree(cause).status().IgnoreError();
  abort(std::move(cause));
}

void BackendCommunicator::abort_drain(ErrorInfo cause, Deadline tell) {
  if (life_.load(std::memory_order_acquire) != Life::kClosed) return;
  {
    base::MutexLock lock(mutex_);
    if (in_flight_ == 0) return;
  }
  if (!tell.passed()) first_failure_.agree(cause).status().IgnoreError();
  abort(std::move(cause));
}

void BackendCommunicator::break_by(const absl::Status& error) {
  try {
    ErrorInfo cause = error_info(error).value_or(ErrorInfo{
        .reason = Reason::kOutOfMemory, .what = std::string(error.message())});
    cause.group = identity_.group;
    cause.my_rank = identity_.rank;
    cause.group_size = identity_.size;
    abort_everywhere(std::move(cause), Deadline::after(kLeaveAfterAbort));
    // The caller returns the error, also where the group was broken before.
    base::MutexLock lock(mutex_);
    is_news_ = false;
  } catch (const std::bad_alloc&) {
    abort({.reason = Reason::kOutOfMemory});
  }
}

absl::Status BackendCommunicator::broken_by_exception(uint16_t kind) {
  absl::Status error = base::error_of_exception(op_shape(kind).name);
  break_by(error);
  return base::guarded(op_shape(kind).name, [&] {
    return base::make_error(located(
        error_info(error).value_or(ErrorInfo{.reason = Reason::kOutOfMemory}),
        kind, 0));
  });
}

void BackendCommunicator::work_expired(const ErrorInfo& cause) {
  first_failure_.agree(cause).status().IgnoreError();
  abort(cause);
  base::MutexLock lock(mutex_);
  is_news_ = false;
}

void BackendCommunicator::board_found(ErrorInfo found) {
  if (life_.load(std::memory_order_acquire) != Life::kOpen) return;
  learn_first(&found);
  {
    // The board and the news of other hosts may both have found it.
    base::MutexLock lock(mutex_);
    if (life_.load(std::memory_order_relaxed) == Life::kOpen) is_news_ = true;
  }
  abort(std::move(found));
}

void BackendCommunicator::board_waits(GroupBoard::Stuck stuck) {
  if (life_.load(std::memory_order_acquire) != Life::kOpen) return;
  if (stuck.speaks) base::log(base::LogLevel::kWarning, stuck.text);
  if (identity_.hooks != nullptr)
    identity_.hooks->waits(std::move(stuck), watchdog_->callbacks());
}

void BackendCommunicator::board_tells(std::string text) {
  if (identity_.news != nullptr) identity_.news->say_calls(text);
}

void BackendCommunicator::board_hears(absl::string_view text) {
  std::shared_ptr<GroupBoard> board;
  {
    base::MutexLock lock(mutex_);
    board = board_;
  }
  if (board != nullptr) board->hear(text);
}

bool BackendCommunicator::drain(Deadline deadline) {
  const Life before = life_.exchange(Life::kClosed, std::memory_order_seq_cst);
  lock_.shut();
  if (before == Life::kClosed) return false;
  // In a broken group nothing is awaited: its backend was aborted.
  const Deadline patience =
      before == Life::kBroken ? Deadline::after(kLeaveAfterAbort) : deadline;
  bool idle = CallGuard::wait_until_left(this, patience);
  idle = shut_windows(patience) && idle;
  {
    base::MutexLock lock(mutex_);
    while (in_flight_ > 0 && changed_.wait_until(mutex_, patience)) {
    }
    idle = idle && in_flight_ == 0;
  }
  if (!idle)
    abort({.reason = Reason::kAborted,
           .what = "the session was closed while operations ran",
           .group = identity_.group});
  return idle && before == Life::kOpen;
}

std::vector<std::shared_ptr<Window>> BackendCommunicator::windows() const {
  base::MutexLock lock(mutex_);
  return windows_;
}

void BackendCommunicator::forget(const Window* window) {
  base::MutexLock lock(mutex_);
  windows_.erase(
      std::remove_if(windows_.begin(), windows_.end(),
                     [&](const auto& one) { return one.get() == window; }),
      windows_.end());
}

bool BackendCommunicator::shut_windows(Deadline deadline) {
  bool left = true;
  for (const auto& window : windows()) left = window->shut(deadline) && left;
  return left;
}

absl::Status BackendCommunicator::pending_mismatch() {
  {
    base::MutexLock lock(mutex_);
    if (is_news_ && first_cause_.reason == Reason::kCallMismatch) {
      is_news_ = false;
      return base::make_error(first_cause_);
    }
    if (first_cause_.reason != Reason::kNone) return absl::OkStatus();
  }
  const auto look = [this] {
    std::optional<ErrorInfo> found;
    if (board_ != nullptr) found = board_->ask();
    return found.has_value() && found->reason == Reason::kCallMismatch
               ? found
               : std::nullopt;
  };
  if (!look().has_value()) return pending_message_mismatch();
  // A call that its backend is about to refuse is visible for a moment.
  const timespec moment{0, 1'000'000};
  nanosleep(&moment, nullptr);
  const std::optional<ErrorInfo> found = look();
  if (!found.has_value()) return absl::OkStatus();
  ErrorInfo first = first_failure_.agree(*found).value_or(*found);
  if (first.reason != Reason::kCallMismatch) return base::make_error(*found);
  first.my_rank = identity_.rank;
  return base::make_error(first);
}

BackendCommunicator::Reference::Reference(BackendCommunicator* to) : to_(to) {
  if (to_ == nullptr) return;
  base::MutexLock lock(to_->mutex_);
  if (to_->destroyed_)
    to_ = nullptr;
  else
    ++to_->references_;
}

BackendCommunicator::Reference::~Reference() {
  if (to_ == nullptr) return;
  base::MutexLock lock(to_->mutex_);
  --to_->references_;
  to_->changed_.notify_all();
}

absl::Status BackendCommunicator::destroy(Deadline deadline) {
  const Deadline patience = Deadline::after(kLeaveAfterAbort);
  bool unused = CallGuard::wait_until_left(this, patience);
  unused = shut_windows(patience) && unused;
  if (unused)
    for (const auto& window : windows()) window->end(patience).IgnoreError();
  std::shared_ptr<GroupBoard> board;
  bool aborted = false;
  {
    base::MutexLock lock(mutex_);
    if (destroyed_) return absl::OkStatus();
    while ((in_flight_ > 0 || references_ > 0 || abort_ == Abort::kRunning) &&
           changed_.wait_until(mutex_, patience)) {
    }
    destroyed_ = true;
    // If a backend does not release its communicator, a leak is better than
    // memory that is freed while in use.
    released_ = unused && in_flight_ == 0 && references_ == 0 &&
                abort_ != Abort::kRunning;
    if (!released_) return absl::OkStatus();
    board = std::move(board_);
    aborted = abort_ != Abort::kNone;
    released_plans_.clear();
    plans_.clear();
  }
  // Called without the mutex, which a backend may want that completes works of
  // other communicators meanwhile, and a running listener.
  dw_error error = {};
  const int32_t code = backend_->api().comm_destroy(
      comm_, deadline.is_never() ? 0 : deadline.ns(), &error);
  if (board != nullptr) board->tell(nullptr);
  if (identity_.news != nullptr) identity_.news->tell(nullptr);
  if (code == DW_OK || aborted || error.reason == DW_REASON_WAIT_EXPIRED)
    return absl::OkStatus();
  ErrorInfo info = backend_error(code, error, backend_->name());
  info.next_step =
      code == DW_DEADLINE_EXCEEDED
          ? "let go of what it waits for; the rest then ends by itself"
          : "go on, the group has ended; end the process if it lacks memory";
  return base::make_error(located(std::move(info), "destroy_process_group", 0));
}

void BackendCommunicator::End::operator()(
    BackendCommunicator* communicator) const {
  if (communicator->process_.is_of_parent()) return keep_for_ever(communicator);
  // Each step may be repeated.
  const absl::Status ended = base::guarded("", [&] {
    communicator->drain(Deadline::after(absl::ZeroDuration()));
    communicator->destroy(Deadline::after(absl::ZeroDuration())).IgnoreError();
    return absl::OkStatus();
  });
  if (!ended.ok())
    communicator->destroy(Deadline::after(absl::ZeroDuration())).IgnoreError();
  {
    base::MutexLock lock(communicator->mutex_);
    if (!communicator->released_) {
      keep_for_ever(communicator);
      return;
    }
    if (communicator->in_hooks_ > 0) {
      communicator->freed_by_hooks_ = true;
      return;
    }
  }
  delete communicator;
}

}  // namespace distwrap::comm
