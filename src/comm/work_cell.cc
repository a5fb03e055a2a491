#include "comm/work_cell.h"

#include "base/error.h"
#include "comm/backend_instance.h"
#include "comm/op_build.h"

#include <absl/strings/str_cat.h>

#include <string.h>
#include <utility>

namespace distwrap::comm {
namespace {

// How long a backend may take to let go of the buffers after an abort, before
// the waiters are told without it.
constexpr absl::Duration kQuiesce = absl::Milliseconds(50);

}  // namespace

WorkCell::WorkCell(WorkOwner& owner, Watchdog& watchdog, const dw_op& op,
                   Deadline deadline, ErrorInfo timeout_error, uint64_t record)
    : owner_(owner),
      watchdog_(watchdog),
      engine_(owner.work_engine()),
      has_streams_(owner.work_has_streams()),
      kind_(op.kind),
      seq_(op.seq),
      deadline_(deadline),
      started_ns_(Deadline::now_ns()),
      timeout_error_(std::move(timeout_error)),
      record_(record),
      outputs_(views_of(op.out, timeout_error_.group_size)) {}

const void* WorkCell::keep_scale(const void* scale) {
  memcpy(scale_.bytes, scale, sizeof scale_.bytes);
  return scale_.bytes;
}

void WorkCell::take_off() {
  if (!deadline_.is_never()) watchdog_.add(*this, deadline_);
}

void WorkCell::land(WorkState state, ErrorInfo error) {
  watchdog_.remove(*this);
  end_flight(state, std::move(error));
  leave();
}

void WorkCell::complete(dw_work* work, int32_t code, const dw_error* error) {
  auto* cell = reinterpret_cast<WorkCell*>(work);
  cell->watchdog_.remove(*cell);
  if (code == DW_OK) {
    cell->end_flight(WorkState::kDone, {});
  } else if (cell->expired_.load(std::memory_order_acquire)) {
    // The abort that followed the deadline failed it; the deadline is the
    // cause.
    ErrorInfo info = cell->late_;
    info.elapsed = absl::Nanoseconds(Deadline::now_ns() - cell->started_ns_);
    cell->end_flight(WorkState::kTimedOut, std::move(info));
  } else {
    ErrorInfo info = cell->owner_.work_failed(
        cell->kind_, cell->seq_, code, error != nullptr ? *error : dw_error{});
    info.elapsed = absl::Nanoseconds(Deadline::now_ns() - cell->started_ns_);
    if (info.reason == Reason::kTimedOut)
      info.deadline = cell->timeout_error_.deadline;
    const bool aborted = info.reason == Reason::kAborted;
    cell->end_flight(aborted ? WorkState::kAborted : WorkState::kFailed,
                     std::move(info));
  }
  cell->leave();
}

Deadline WorkCell::expired() {
  if (!expired_.load(std::memory_order_relaxed)) {
    late_ = timeout_error_;
    late_.elapsed = absl::Nanoseconds(Deadline::now_ns() - started_ns_);
    owner_.name_missing(&late_);
    expired_.store(true, std::memory_order_release);
    owner_.work_expired(late_);
    return Deadline::after(kQuiesce);
  }
  ErrorInfo info = late_;
  info.elapsed = absl::Nanoseconds(Deadline::now_ns() - started_ns_);
  absl::StrAppend(&info.what,
                  "; its buffers are in use until the group is destroyed");
  end_flight(WorkState::kTimedOut, std::move(info));
  return Deadline::never();
}

void WorkCell::end_flight(WorkState state, ErrorInfo error) {
  // First: who waits for the work may end the program.
  owner_.work_ended(seq_, record_, error.reason, state == WorkState::kDone);
  error.label = timeout_error_.label;
  end(state,
      state == WorkState::kDone ? absl::OkStatus() : base::make_error(error),
      watchdog_.callbacks());
}

void WorkCell::leave() {
  owner_.work_landed();
  release_task();
}

bool WorkCell::poll() {
  if (is_of_parent()) return false;
  const std::shared_ptr<const BackendInstance> engine = engine_.lock();
  return engine != nullptr && engine->progress();
}

absl::Status WorkCell::wait_stream(const Stream& stream) {
  if (!has_streams_) return Completion::wait_stream(stream);
  // While it is held the backend's part stays, whenever the flight ends.
  if (!while_running([this] { owner_.work_held(); })) return status();
  absl::Status told = owner_.work_wait_stream(abi(), stream);
  owner_.work_landed();
  return told;
}

absl::Status WorkCell::expired_wait() const {
  ErrorInfo info = timeout_error_;  // for who, which and how long
  info.reason = Reason::kWaitExpired;
  info.what = "the operation is still running";
  info.elapsed = absl::Nanoseconds(Deadline::now_ns() - started_ns_);
  info.next_step = "wait again, or to the operation's own limit";
  return base::make_error(info);
}

}  // namespace distwrap::comm
