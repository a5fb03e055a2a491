#include "comm/work_cell.h"

#include "base/error.h"

#include <absl/strings/str_cat.h>

#include <utility>

namespace distwrap {

Work::Work(const Work& other) : cell_(other.cell_) {
  if (cell_ != nullptr) cell_->acquire();
}

Work& Work::operator=(const Work& other) {
  Work copy(other);
  std::swap(cell_, copy.cell_);
  return *this;
}

void Work::release() { cell_->release(); }

absl::Status Work::wait(absl::Duration timeout) const {
  return cell_ == nullptr ? absl::OkStatus() : cell_->wait(timeout);
}

WorkState Work::state() const {
  return cell_ == nullptr ? WorkState::kDone : cell_->state();
}

absl::Status Work::status() const {
  return cell_ == nullptr ? absl::OkStatus() : cell_->status();
}

uint64_t Work::seq() const { return cell_ == nullptr ? 0 : cell_->seq(); }

namespace comm {
namespace {

// How long a backend may take to let go of the buffers after an abort, before
// the waiters are told without it.
constexpr absl::Duration kQuiesce = absl::Milliseconds(50);

}  // namespace

WorkCell::WorkCell(WorkOwner& owner, Watchdog& watchdog, const dw_op& op,
                   Deadline deadline, ErrorInfo timeout_error)
    : owner_(owner),
      watchdog_(watchdog),
      kind_(op.kind),
      seq_(op.seq),
      deadline_(deadline),
      started_ns_(Deadline::now_ns()),
      timeout_error_(std::move(timeout_error)) {}

void WorkCell::take_off() {
  if (!deadline_.is_never()) watchdog_.add(*this, deadline_);
}

void WorkCell::land(WorkState state, ErrorInfo error) {
  watchdog_.remove(*this);
  end(state, std::move(error));
  leave();
}

void WorkCell::complete(dw_work* work, int32_t code, const dw_error* error) {
  auto* cell = reinterpret_cast<WorkCell*>(work);
  cell->watchdog_.remove(*cell);
  if (code == DW_OK) {
    cell->end(WorkState::kDone, {});
  } else if (cell->expired_.load(std::memory_order_acquire)) {
    // The abort that followed the deadline failed it; the deadline is the
    // cause.
    ErrorInfo info = cell->timeout_error_;
    info.elapsed = absl::Nanoseconds(Deadline::now_ns() - cell->started_ns_);
    cell->end(WorkState::kTimedOut, std::move(info));
  } else {
    ErrorInfo info = cell->owner_.work_failed(
        cell->kind_, cell->seq_, code, error != nullptr ? *error : dw_error{});
    info.elapsed = absl::Nanoseconds(Deadline::now_ns() - cell->started_ns_);
    const bool aborted = info.reason == Reason::kAborted;
    cell->end(aborted ? WorkState::kAborted : WorkState::kFailed,
              std::move(info));
  }
  cell->leave();
}

Deadline WorkCell::expired() {
  if (!expired_.exchange(true, std::memory_order_acq_rel)) {
    owner_.work_expired(timeout_error_);
    return Deadline::after(kQuiesce);
  }
  ErrorInfo info = timeout_error_;
  info.elapsed = absl::Nanoseconds(Deadline::now_ns() - started_ns_);
  absl::StrAppend(&info.what,
                  "; its buffers are in use until the group is destroyed");
  end(WorkState::kTimedOut, std::move(info));
  return Deadline::never();
}

void WorkCell::end(WorkState state, ErrorInfo error) {
  base::MutexLock lock(mutex_);
  if (state_.load(std::memory_order_relaxed) != WorkState::kRunning) return;
  error_ = std::move(error);
  state_.store(state, std::memory_order_release);
  ended_.notify_all();
}

void WorkCell::leave() {
  owner_.work_landed();
  release();
}

void WorkCell::release() {
  if (references_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
}

absl::Status WorkCell::status() const {
  base::MutexLock lock(mutex_);
  switch (state_.load(std::memory_order_relaxed)) {
    case WorkState::kRunning:
    case WorkState::kDone:
      return absl::OkStatus();
    case WorkState::kFailed:
    case WorkState::kTimedOut:
    case WorkState::kAborted:
      break;
  }
  return base::make_error(error_);
}

absl::Status WorkCell::expired_wait() const {
  ErrorInfo info = timeout_error_;  // for who, which and how long
  info.reason = Reason::kWaitExpired;
  info.what = "the operation is still running";
  info.elapsed = absl::Nanoseconds(Deadline::now_ns() - started_ns_);
  info.next_step = "wait again, or to the operation's own limit";
  return base::make_error(info);
}

absl::Status WorkCell::wait(absl::Duration timeout) {
  const Deadline deadline = Deadline::after(timeout);
  {
    base::MutexLock lock(mutex_);
    while (state_.load(std::memory_order_relaxed) == WorkState::kRunning) {
      if (!ended_.wait_until(mutex_, deadline) &&
          state_.load(std::memory_order_relaxed) == WorkState::kRunning)
        return expired_wait();
    }
  }
  return status();
}

}  // namespace comm
}  // namespace distwrap
