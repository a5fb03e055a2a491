// How a communicator breaks and ends: by calls that failed, by what the board
// has found, by its owner.
#include "base/error.h"
#include "base/log.h"
#include "comm/communicator.h"
#include "comm/op_build.h"
#include "comm/window.h"

#include <algorithm>
#include <optional>
#include <time.h>
#include <utility>
#include <vector>

namespace distwrap::comm {
namespace {

// A call of another thread may use what an abort takes away for this long.
constexpr absl::Duration kLeaveAfterAbort = absl::Milliseconds(400);

// Where who looks for leaks finds what backends did not let go of.
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
    if (breaks) first_cause_ = std::move(cause);
    seat_.shut();
    if (abort_ != Abort::kNone || destroyed_) return;
    abort_ = Abort::kRunning;
  }
  // Off the lock: the backend may complete operations in here.
  if (lane_ != nullptr) lane_->break_off();
  backend_->api().comm_abort(comm_, &why);
  if (breaks && identity_.hooks != nullptr)
    identity_.hooks->broke(shown, watchdog_->callbacks());
  // After the peers were told, before anybody can free what this uses.
  if (breaks && identity_.recorded.recording != nullptr)
    identity_.recorded.recording->save_after_failure();
  base::MutexLock lock(mutex_);
  abort_ = Abort::kDone;
  landed_.notify_all();
}

void BackendCommunicator::abort_everywhere(ErrorInfo cause, Deadline tell) {
  if (life_.load(std::memory_order_acquire) != Life::kOpen) return;
  if (!tell.passed()) first_failure_.agree(cause);
  abort(std::move(cause));
}

void BackendCommunicator::work_expired(const ErrorInfo& cause) {
  first_failure_.agree(cause);
  abort(cause);
  base::MutexLock lock(mutex_);
  is_news_ = false;
}

void BackendCommunicator::board_found(ErrorInfo found) {
  if (life_.load(std::memory_order_acquire) != Life::kOpen) return;
  learn_first(&found);
  {
    base::MutexLock lock(mutex_);
    is_news_ = life_.load(std::memory_order_relaxed) == Life::kOpen;
  }
  abort(std::move(found));
}

void BackendCommunicator::board_waits(Lane::Stuck stuck) {
  if (life_.load(std::memory_order_acquire) != Life::kOpen) return;
  if (stuck.speaks) base::log(base::LogLevel::kWarning, stuck.text);
  if (identity_.hooks != nullptr)
    identity_.hooks->waits(std::move(stuck), watchdog_->callbacks());
}

void BackendCommunicator::work_ended(uint64_t seq, uint64_t record,
                                     Reason reason, bool good) {
  if (lane_ != nullptr && seq != 0) lane_->landed(seq);
  end_record(record, good ? Recorder::kDone : Recorder::failed(reason));
}

void BackendCommunicator::work_landed() {
  base::MutexLock lock(mutex_);
  --in_flight_;
  landed_.notify_all();
}

bool BackendCommunicator::drain(Deadline deadline) {
  const Life before = life_.exchange(Life::kClosed, std::memory_order_seq_cst);
  seat_.shut();
  if (before == Life::kClosed) return false;
  // A broken group has nothing to wait for: its backend was aborted.
  const Deadline patience =
      before == Life::kBroken ? Deadline::after(kLeaveAfterAbort) : deadline;
  bool idle = CallGuard::wait_until_left(this, patience);
  idle = shut_windows(patience) && idle;
  {
    base::MutexLock lock(mutex_);
    while (in_flight_ > 0 && landed_.wait_until(mutex_, patience)) {
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

absl::Status BackendCommunicator::untold() {
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
    if (lane_ != nullptr) found = lane_->ask();
    return found.has_value() && found->reason == Reason::kCallMismatch
               ? found
               : std::nullopt;
  };
  if (!look().has_value()) return absl::OkStatus();
  // A call that its backend is about to refuse is shown for a moment.
  const timespec moment{0, 1'000'000};
  nanosleep(&moment, nullptr);
  const std::optional<ErrorInfo> found = look();
  if (!found.has_value()) return absl::OkStatus();
  ErrorInfo first = first_failure_.agree(*found);
  if (first.reason != Reason::kCallMismatch) return base::make_error(*found);
  first.my_rank = identity_.rank;
  return base::make_error(first);
}

BackendCommunicator::Loan::Loan(BackendCommunicator* of) : of_(of) {
  if (of_ == nullptr) return;
  base::MutexLock lock(of_->mutex_);
  if (of_->destroyed_)
    of_ = nullptr;
  else
    ++of_->lent_;
}

BackendCommunicator::Loan::~Loan() {
  if (of_ == nullptr) return;
  base::MutexLock lock(of_->mutex_);
  --of_->lent_;
  of_->landed_.notify_all();
}

void BackendCommunicator::destroy(Deadline deadline) {
  const Deadline patience = Deadline::after(kLeaveAfterAbort);
  bool unused = CallGuard::wait_until_left(this, patience);
  unused = shut_windows(patience) && unused;
  if (unused)
    for (const auto& window : windows()) window->end(patience).IgnoreError();
  std::shared_ptr<Lane> lane;
  {
    base::MutexLock lock(mutex_);
    if (destroyed_) return;
    while ((in_flight_ > 0 || lent_ > 0 || abort_ == Abort::kRunning) &&
           landed_.wait_until(mutex_, patience)) {
    }
    destroyed_ = true;
    // A backend that does not let go keeps its communicator: better a leak than
    // memory freed under its feet.
    released_ =
        unused && in_flight_ == 0 && lent_ == 0 && abort_ != Abort::kRunning;
    if (!released_) return;
    lane = std::move(lane_);
    backend_->api().comm_destroy(comm_, deadline.is_never() ? 0 : deadline.ns(),
                                 nullptr);
  }
  // Off the lock, which who is being told takes.
  if (lane != nullptr) lane->tell(nullptr);
}

void BackendCommunicator::End::operator()(
    BackendCommunicator* communicator) const {
  if (communicator->process_.is_of_parent()) return keep_for_ever(communicator);
  communicator->drain(Deadline::after(absl::ZeroDuration()));
  communicator->destroy(Deadline::after(absl::ZeroDuration()));
  {
    base::MutexLock lock(communicator->mutex_);
    if (!communicator->released_) {
      keep_for_ever(communicator);
      return;
    }
    if (communicator->staying_ > 0) {
      communicator->left_to_stay_ = true;
      return;
    }
  }
  delete communicator;
}

}  // namespace distwrap::comm
