// A communicator's operations that complete later, and the calls of threads
// that come in beside another, which are run as such.
#include "base/error.h"
#include "comm/communicator.h"
#include "comm/op_build.h"
#include "comm/op_shape.h"

#include <utility>

namespace distwrap::comm {

absl::StatusOr<Work> BackendCommunicator::run_slow(uint16_t kind, AnyCall call,
                                                   const CallOptions& options,
                                                   CallGuard::Slot& slot,
                                                   const Stream* stream) {
  if (absl::Status open = check_open(kind); !open.ok())
    return labelled(options, std::move(open));
  Visit visit{slot};
  visit.stream = stream;
  if (identity_.hooks != nullptr && identity_.hooks->wanted())
    return run_shown(kind, call, options, visit);
  return run_in_turn(kind, call, options, visit);
}

absl::StatusOr<Work> BackendCommunicator::run_in_turn(
    uint16_t kind, AnyCall call, const CallOptions& options, Visit visit) {
  int64_t timeout_ns = timeout_ns_.load(std::memory_order_relaxed);
  if (options.timeout.has_value()) {
    if (*options.timeout <= absl::ZeroDuration())
      return labelled(options, refuse_timeout(kind, *options.timeout));
    timeout_ns = timeout_ns_of(*options.timeout);
  }
  const bool collective = op_shape(kind).collective();
  visit.place = seat_.enter(visit.slot, collective, Deadline::at_ns(0));
  if (visit.place == Seat::Place::kNone) {
    // Only who has to wait reads the clock.
    const Deadline deadline =
        visit.deadline_ns != 0 ? Deadline::at_ns(visit.deadline_ns)
        : timeout_ns == 0      ? Deadline::never()
                               : Deadline::after(absl::Nanoseconds(timeout_ns));
    visit.place = seat_.enter(visit.slot, collective, deadline);
    if (visit.place == Seat::Place::kNone)
      return labelled(options, refuse_place(kind, timeout_ns));
    if (!deadline.is_never()) visit.deadline_ns = deadline.ns();
  }
  absl::Status open = check_open(kind);
  absl::StatusOr<Work> result = open.ok() ? run_long(kind, call, options, visit)
                                          : labelled(options, std::move(open));
  if (visit.place == Seat::Place::kBeside) seat_.leave();
  return result;
}

WorkCell* BackendCommunicator::embark(dw_op& op, bool own_scale,
                                      absl::string_view label,
                                      uint32_t record_flags) {
  const Deadline deadline = set_deadline(op, Deadline::now_ns());
  ErrorInfo late = timeout_error(op);
  late.label = std::string(label);
  if (lane_ != nullptr && op.seq != 0) lane_->publish(op.kind, op, label);
  auto* const cell = new WorkCell(
      *this, *watchdog_, op, deadline, std::move(late),
      begin_record(op.kind, op, record_flags | Recorder::kAsync, label));
  if (lane_ != nullptr && op.seq != 0) lane_->flies(op.seq);
  if (own_scale) op.scale = cell->keep_scale(op.scale);
  {
    base::MutexLock lock(mutex_);
    ++in_flight_;
  }
  cell->take_off();
  return cell;
}

absl::StatusOr<Work> BackendCommunicator::submit_async(
    dw_op& op, bool own_scale, const CallOptions& options) {
  return conclude(op, start(op, own_scale, options.label), options);
}

absl::StatusOr<Work> BackendCommunicator::submit_beside(
    dw_op& op, bool own_scale, const CallOptions& options, bool caller_waits,
    uint64_t* seq) {
  Started started;
  {
    base::MutexLock turn(seat_.turns());
    if (op_shape(op.kind).collective()) stamp(&op);
    if (seq != nullptr) *seq = op.seq;
    started = start(op, own_scale, options.label);
  }
  absl::StatusOr<Work> work = conclude(op, std::move(started), options);
  if (!work.ok() || !caller_waits) return work;
  if (absl::Status ended = work->wait(); !ended.ok()) return ended;
  return Work();
}

BackendCommunicator::Started BackendCommunicator::start(
    dw_op& op, bool own_scale, absl::string_view label) {
  Started started;
  started.cell = embark(op, own_scale, label);
  started.work = started.cell->handle();
  started.error = dw_error{};
  started.error.peer = -1;
  const uint64_t record = started.cell->record();
  started.code = submit(op, started.cell->abi(), &started.error);
  if (record != 0) recorder_->started(record);
  if (is_refusal(started.code)) unstamp(op);
  return started;
}

absl::StatusOr<Work> BackendCommunicator::conclude(const dw_op& op,
                                                   Started started,
                                                   const CallOptions& options) {
  if (started.code == DW_OK) return std::move(started.work);
  if (started.code == DW_DONE) {
    started.cell->land(WorkState::kDone);
    return std::move(started.work);
  }
  ErrorInfo info = work_failed(op.kind, op.seq, started.code, started.error);
  if (info.reason == Reason::kTimedOut)
    info.deadline = absl::Nanoseconds(op.timeout_ns);
  started.cell->land(WorkState::kFailed, info);
  return labelled(options, base::make_error(info));
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

void BackendCommunicator::work_held() {
  base::MutexLock lock(mutex_);
  ++in_flight_;
}

}  // namespace distwrap::comm
