// Operations that complete later: begun here, finished by their cell.
#include "base/error.h"
#include "base/exceptions.h"
#include "comm/communicator.h"
#include "comm/op_build.h"
#include "comm/op_shape.h"
#include "sdk/guard.h"

#include <new>
#include <utility>

namespace distwrap::comm {

WorkCell* BackendCommunicator::begin(dw_op& op, absl::string_view label,
                                     bool own_scale, WorkOwner& owner,
                                     Recorder::Numbers& numbers,
                                     uint32_t record_flags) {
  const int64_t now_ns = Deadline::now_ns();
  const Deadline deadline = set_deadline(op, now_ns);
  CallTrace trace(trace_, op, label);
  trace.begin(op.kind, numbers, record_flags | Recorder::kAsync);
  auto* const cell =
      new WorkCell(owner, *watchdog_, *backend_, op, identity_.size, now_ns,
                   deadline, label, trace.record());
  if (trace_.board != nullptr && op.seq != 0) trace_.board->began(op.seq);
  if (own_scale) op.scale = cell->keep_scale(op.scale);
  if (backend_->says_begun()) cell->await_begin();
  owner.work_begun();
  cell->arm();
  return cell;
}

BackendCommunicator::Started BackendCommunicator::start_by(
    const Runner& by, dw_op& op, const CallOptions& options, bool own_scale,
    WorkOwner& owner, Recorder::Numbers& numbers) {
  Started started;
  started.cell = begin(op, options.label, own_scale, owner, numbers);
  started.work = started.cell->handle();
  clear(&started.error);
  started.code = has_queued() ? int32_t{DW_AGAIN}
                              : by.submit(by.comm, &op, started.cell->abi(),
                                          &started.error);
  if (started.code == DW_AGAIN) {
    try {
      SubmitQueue::Set set;
      set.push_back({this, started.cell, keep_op(op, identity_.size)});
      enqueue(std::move(set));
      started.code = DW_OK;
      return started;
    } catch (...) {
      started.code = dw_sdk::error_of_exception("an operation", &started.error);
    }
  }
  left_host(*started.cell);
  // Under the submit mutex, where there is one.
  if (is_refusal(started.code)) unstamp(op);
  return started;
}

// From here on it runs, unless the backend tells when that begins.
void BackendCommunicator::left_host(const WorkCell& cell) {
  if (cell.record() != 0 && !cell.awaits_begin())
    trace_.recorder->started(cell.record());
}

absl::StatusOr<Work> BackendCommunicator::conclude(const dw_op& op,
                                                   Started&& started,
                                                   WorkOwner& owner,
                                                   const CallOptions& options) {
  if (started.code == DW_OK) return std::move(started.work);
  if (started.code == DW_DONE) {
    started.cell->finish(WorkState::kDone);
    return std::move(started.work);
  }
  absl::Status status;
  ErrorInfo info{.reason = Reason::kOutOfMemory};
  try {
    status = conclude(op, started.code, started.error, owner, options);
    info = *error_info(status);
  } catch (const std::bad_alloc&) {
    status = base::no_memory_error();
    break_by(status);
  }
  started.cell->finish(WorkState::kFailed, std::move(info));
  return status;
}

absl::StatusOr<Work> BackendCommunicator::start_on_stream(
    dw_op& op, const CallOptions& options, const Stream& stream) try {
  absl::Status put = check_stream(op_shape(op.kind).name, stream);
  if (put.ok()) put = put_on_stream(stream, options.async, &op);
  if (!put.ok()) return labelled(options, std::move(put));
  if (op_shape(op.kind).collective()) stamp(&op);
  return start_and_conclude(op, options);
} catch (...) {
  return broken_by_exception(op.kind);
}

absl::StatusOr<Work> BackendCommunicator::start_and_conclude(
    dw_op& op, const CallOptions& options) try {
  say_registered(&op);
  return conclude(op, start(op, options, false, *this, record_numbers_), *this,
                  options);
} catch (...) {
  return broken_by_exception(op.kind);
}

absl::Status BackendCommunicator::put_on_stream(const Stream& stream,
                                                bool aside, dw_op* op) const {
  op->stream = abi_stream(stream);
  if (aside) op->flags |= DW_FLAG_ASIDE;
  int32_t captured = 0;
  dw_error error;
  clear(&error);
  const int32_t code =
      backend_->api().stream_captured(comm_, &op->stream, &captured, &error);
  // A backend without the slot has no captures.
  if (code != DW_OK && code != DW_UNIMPLEMENTED)
    return base::make_error(
        located(backend_error(code, error, backend_->name()),
                op_shape(op->kind).name, 0));
  if (captured != 0) op->flags |= DW_FLAG_CAPTURE;
  return absl::OkStatus();
}

absl::Status BackendCommunicator::work_wait_stream(dw_work* work,
                                                   const Stream& stream) {
  constexpr char kCall[] = "wait_stream";
  if (absl::Status fits = check_stream(kCall, stream); !fits.ok()) return fits;
  const dw_stream waiting = abi_stream(stream);
  dw_error error{};
  error.peer = -1;
  const int32_t code =
      backend_->api().work_wait_stream(comm_, work, &waiting, &error);
  if (code == DW_OK || code == DW_DONE) return absl::OkStatus();
  return base::make_error(
      located(backend_error(code, error, backend_->name()), kCall, 0));
}

void BackendCommunicator::run_queued(uint64_t seq) {
  backend_->api().run_queued(comm_, seq);
}

void BackendCommunicator::work_begun() {
  backend_->begin_driving();
  in_flight_.fetch_add(1, std::memory_order_relaxed);
}

void BackendCommunicator::work_on_device(const dw_op& op,
                                         const WorkCell& cell) {
  on_device_.begun(&cell, op);
  if (cell.record() != 0) trace_.recorder->started(cell.record());
}

std::string BackendCommunicator::why_queued(const dw_op& op) {
  return on_device_.why_queued(op);
}

void BackendCommunicator::work_ended(const WorkCell& cell, Reason reason,
                                     bool good) {
  if (cell.awaits_begin()) on_device_.ended(&cell);
  if (trace_.board != nullptr && cell.seq() != 0)
    trace_.board->finished(cell.seq());
  if (cell.record() != 0)
    trace_.recorder->end(cell.record(),
                         good ? Recorder::kDone : Recorder::failed(reason));
}

void BackendCommunicator::work_finished() {
  backend_->end_driving();
  base::MutexLock lock(mutex_);
  --in_flight_;
  changed_.notify_all();
}

}  // namespace distwrap::comm
