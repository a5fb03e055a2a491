#include "comm/communicator.h"

#include "base/error.h"
#include "comm/call_guard.h"
#include "comm/op_shape.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <sched.h>
#include <string.h>
#include <utility>

namespace distwrap::comm {
namespace {

constexpr dw_dtype kAbiDTypes[] = {
#define DW_DTYPE(index, name, enumerator, text, code, bits, storage) \
  {code, bits, 1},
#include "distwrap/abi/dtypes.def"
};

// A call of another thread may use what an abort takes away for this long.
constexpr absl::Duration kLeaveAfterAbort = absl::Milliseconds(400);

dw_buf abi_buffer(const TensorView& view) {
  dw_buf buffer{};
  buffer.data = view.data();
  buffer.count = view.count();
  buffer.dtype = kAbiDTypes[static_cast<uint8_t>(view.dtype())];
  return buffer;
}

dw_error abi_error(const ErrorInfo& info) {
  dw_error error{};
  error.code = static_cast<int16_t>(base::reason_code(info.reason));
  error.reason = static_cast<uint16_t>(info.reason);
  error.peer = info.ranks.empty() ? -1 : info.ranks.front();
  const size_t n = std::min(info.what.size(), sizeof error.text - 1);
  memcpy(error.text, info.what.data(), n);
  return error;
}

// Whether the error leaves the group as it was: nothing was started.
bool is_refusal(int32_t code) {
  return code == DW_INVALID_ARGUMENT || code == DW_UNIMPLEMENTED ||
         code == DW_INCOMPATIBLE;
}

}  // namespace

// Ends a synchronous call that its backend cannot time out.
class BackendCommunicator::SyncWatch final : public Watchdog::Watch {
 public:
  SyncWatch(BackendCommunicator& owner, const dw_op& op, Deadline deadline,
            absl::Duration timeout)
      : owner_(owner), op_(op), timeout_(timeout) {
    if (deadline.is_never()) return;
    owner_.watchdog_.add(*this, deadline);
    added_ = true;
  }
  ~SyncWatch() override {
    if (added_) owner_.watchdog_.remove(*this);
  }
  SyncWatch(const SyncWatch&) = delete;
  SyncWatch& operator=(const SyncWatch&) = delete;

  bool fired() const { return fired_.load(std::memory_order_acquire); }

 private:
  Deadline expired() override {
    fired_.store(true, std::memory_order_release);
    owner_.abort(
        owner_.timeout_error(op_shape(op_.kind).name, op_.seq, timeout_));
    return Deadline::never();
  }

  BackendCommunicator& owner_;
  const dw_op& op_;
  const absl::Duration timeout_;
  bool added_ = false;
  std::atomic<bool> fired_{false};
};

BackendCommunicator::BackendCommunicator(
    Identity identity, std::shared_ptr<BackendInstance> backend, dw_comm* comm,
    Watchdog& watchdog)
    : identity_(std::move(identity)),
      backend_(std::move(backend)),
      comm_(comm),
      host_watches_((backend_->api().flags & DW_BACKEND_HOST_WATCHES) != 0),
      watchdog_(watchdog) {
  if (host_watches_) watchdog_.start();
}

BackendCommunicator::~BackendCommunicator() {
  drain(Deadline::after(absl::ZeroDuration()));
  destroy(Deadline::after(absl::ZeroDuration()));
}

absl::StatusOr<Work> BackendCommunicator::barrier(const CallOptions& options) {
  return run({.kind = DW_OP_BARRIER}, options);
}

absl::StatusOr<Work> BackendCommunicator::broadcast(
    TensorView out, TensorView in, int root, const CallOptions& options) {
  return run({.kind = DW_OP_BROADCAST,
              .out = out,
              .in = root == identity_.rank ? in : TensorView(),
              .peer = root},
             options);
}

absl::StatusOr<Work> BackendCommunicator::all_reduce(
    TensorView out, TensorView in, ReduceOp op, const CallOptions& options) {
  return run({.kind = DW_OP_ALL_REDUCE,
              .reduce = static_cast<uint16_t>(op),
              .out = out,
              .in = in},
             options);
}

absl::StatusOr<Work> BackendCommunicator::all_gather(
    TensorView out, TensorView in, const CallOptions& options) {
  return run({.kind = DW_OP_ALL_GATHER, .out = out, .in = in}, options);
}

absl::StatusOr<Work> BackendCommunicator::reduce_scatter(
    TensorView out, TensorView in, ReduceOp op, const CallOptions& options) {
  return run({.kind = DW_OP_REDUCE_SCATTER,
              .reduce = static_cast<uint16_t>(op),
              .out = out,
              .in = in},
             options);
}

absl::StatusOr<Work> BackendCommunicator::all_to_all(
    TensorView out, TensorView in, const CallOptions& options) {
  return run({.kind = DW_OP_ALL_TO_ALL, .out = out, .in = in}, options);
}

absl::StatusOr<Work> BackendCommunicator::send(TensorView in, int peer,
                                               int64_t tag,
                                               const CallOptions& options) {
  return run({.kind = DW_OP_SEND, .in = in, .peer = peer, .tag = tag}, options);
}

absl::StatusOr<Work> BackendCommunicator::recv(TensorView out, int peer,
                                               int64_t tag,
                                               const CallOptions& options) {
  return run({.kind = DW_OP_RECV, .out = out, .peer = peer, .tag = tag},
             options);
}

absl::StatusOr<Work> BackendCommunicator::run(const Call& call,
                                              const CallOptions& options) {
  const CallGuard inside(this);
  if (life_.load(std::memory_order_seq_cst) != Life::kOpen)
    return refuse_closed(call);
  const CheckedCall checked = check_call(call, identity_.rank, identity_.size,
                                         backend_->capabilities());
  if (checked.fault != Fault::kNone) return refuse(checked.fault, call);
  const absl::Duration timeout =
      options.timeout.has_value() ? *options.timeout : identity_.timeout;
  if (options.timeout.has_value() && timeout <= absl::ZeroDuration())
    return refuse_timeout(call, timeout);

  const OpShape& shape = op_shape(call.kind);
  dw_op op{};
  op.struct_size = sizeof(dw_op);
  op.kind = call.kind;
  op.reduce = call.reduce;
  op.flags = checked.in_place ? DW_FLAG_IN_PLACE : 0;
  op.peer = call.peer;
  op.tag = static_cast<uint64_t>(call.tag);
  op.in = abi_buffer(call.in);
  op.out = abi_buffer(call.out);
  op.stream.device_type = DW_DEVICE_CPU;
  if (shape.collective()) {
    op.seq = seq_.load(std::memory_order_relaxed) + 1;
    seq_.store(op.seq, std::memory_order_relaxed);
  }

  if (options.async) return submit_async(op, Deadline::after(timeout), timeout);

  op.flags |= DW_FLAG_CALLER_WAITS;
  dw_error error;
  bool expired = false;
  int32_t code;
  int64_t started_ns = 0;
  if (host_watches_) {
    error = {};
    started_ns = Deadline::now_ns();
    const Deadline deadline = Deadline::after(timeout);
    op.deadline_ns = deadline.is_never() ? 0 : deadline.ns();
    code = submit_sync(op, deadline, timeout, &error, &expired);
  } else {
    // Nobody reads a clock unless the backend has to wait.
    op.timeout_ns = timeout == absl::InfiniteDuration()
                        ? 0
                        : absl::ToInt64Nanoseconds(timeout);
    error.text[0] = 0;
    error.reason = DW_REASON_NONE;
    error.native = 0;
    error.peer = -1;
    code = submit(op, nullptr, &error);
  }
  if (code == DW_DONE) return Work();

  if (is_refusal(code)) unstamp(op);
  ErrorInfo info = expired ? timeout_error(shape.name, op.seq, timeout)
                           : work_failed(code, error, shape.name, op.seq);
  if (started_ns != 0)
    info.elapsed = absl::Nanoseconds(Deadline::now_ns() - started_ns);
  return base::make_error(info);
}

void BackendCommunicator::unstamp(const dw_op& op) {
  if (op.seq != 0) seq_.store(op.seq - 1, std::memory_order_relaxed);
}

int32_t BackendCommunicator::submit_sync(const dw_op& op, Deadline deadline,
                                         absl::Duration timeout,
                                         dw_error* error, bool* expired) {
  SyncWatch watch(*this, op, deadline, timeout);
  const int32_t code = submit(op, nullptr, error);
  *expired = watch.fired();
  return code;
}

absl::StatusOr<Work> BackendCommunicator::submit_async(dw_op& op,
                                                       Deadline deadline,
                                                       absl::Duration timeout) {
  const char* const name = op_shape(op.kind).name;
  op.deadline_ns = deadline.is_never() ? 0 : deadline.ns();
  auto* const cell =
      new WorkCell(*this, watchdog_, name, op.seq, deadline, timeout);
  Work work = cell->handle();
  cell->set_timeout_error(timeout_error(name, op.seq, timeout));
  {
    base::MutexLock lock(mutex_);
    ++in_flight_;
  }
  cell->take_off();
  dw_error error{};
  error.peer = -1;
  const int32_t code = submit(op, cell->abi(), &error);
  if (code == DW_OK) return work;
  if (code == DW_DONE) {
    cell->land(WorkState::kDone);
    return work;
  }
  if (is_refusal(code)) unstamp(op);
  const ErrorInfo info = work_failed(code, error, name, op.seq);
  cell->land(WorkState::kFailed, info);
  return base::make_error(info);
}

int32_t BackendCommunicator::submit(const dw_op& op, dw_work* work,
                                    dw_error* error) {
  const dw_backend_api& api = backend_->api();
  int32_t code = api.submit(comm_, &op, work, error);
  if (code != DW_AGAIN) [[likely]]
    return code;
  const Deadline deadline =
      op.deadline_ns != 0  ? Deadline::at_ns(op.deadline_ns)
      : op.timeout_ns != 0 ? Deadline::after(absl::Nanoseconds(op.timeout_ns))
                           : Deadline::never();
  while (code == DW_AGAIN) {
    if (deadline.passed()) {
      *error = abi_error({.reason = Reason::kTimedOut,
                          .what = "the backend had no resources in time"});
      return DW_DEADLINE_EXCEEDED;
    }
    if (life_.load(std::memory_order_acquire) != Life::kOpen) {
      *error = abi_error(
          {.reason = Reason::kAborted, .what = "the group was aborted"});
      return DW_ABORTED;
    }
    api.progress(backend_->backend());
    sched_yield();
    code = api.submit(comm_, &op, work, error);
  }
  return code;
}

absl::Status BackendCommunicator::refuse(Fault fault, const Call& call) const {
  return base::make_error(
      located(describe_fault(fault, call, identity_.rank, identity_.size,
                             backend_->name(), backend_->capabilities()),
              op_shape(call.kind).name, 0));
}

absl::Status BackendCommunicator::refuse_timeout(const Call& call,
                                                 absl::Duration timeout) const {
  return base::make_error(
      located({.reason = Reason::kInvalidArgument,
               .what = "the timeout is not positive",
               .actual = absl::FormatDuration(timeout),
               .next_step = "leave it unset for the group's, or give "
                            "InfiniteDuration for none"},
              op_shape(call.kind).name, 0));
}

absl::Status BackendCommunicator::refuse_closed(const Call& call) const {
  ErrorInfo info;
  if (life_.load(std::memory_order_acquire) == Life::kClosed) {
    info = {.reason = Reason::kGroupClosed,
            .what = "the group is closed",
            .next_step = "make calls before the session is closed"};
  } else {
    base::MutexLock lock(mutex_);
    info = {.reason = Reason::kGroupBroken,
            .what = "an earlier failure broke the group",
            .ranks = first_cause_.ranks,
            .cause = std::string(base::make_error(first_cause_).message()),
            .next_step = "close the session and start a new one"};
  }
  return base::make_error(located(info, op_shape(call.kind).name, 0));
}

ErrorInfo BackendCommunicator::timeout_error(const char* op, uint64_t seq,
                                             absl::Duration timeout) const {
  return located(
      {.reason = Reason::kTimedOut,
       .what = "not all ranks took part in time",
       .deadline =
           timeout == absl::InfiniteDuration() ? absl::ZeroDuration() : timeout,
       .next_step =
           "look for the rank that is late, stopped or gone; the limit "
           "is the call's timeout, else DISTWRAP_TIMEOUT"},
      op, seq);
}

ErrorInfo BackendCommunicator::located(ErrorInfo info, const char* op,
                                       uint64_t seq) const {
  info.op = op;
  info.group = identity_.group;
  info.seq = seq;
  info.my_rank = identity_.rank;
  info.group_size = identity_.size;
  return info;
}

void BackendCommunicator::abort(ErrorInfo cause) {
  const dw_error why = abi_error(cause);
  {
    base::MutexLock lock(mutex_);
    Life open = Life::kOpen;
    if (life_.compare_exchange_strong(open, Life::kBroken))
      first_cause_ = std::move(cause);
    if (destroyed_) return;
    backend_->api().comm_abort(comm_, &why);
  }
}

void BackendCommunicator::work_expired(const ErrorInfo& cause) { abort(cause); }

ErrorInfo BackendCommunicator::work_failed(int32_t code, const dw_error& error,
                                           const char* op, uint64_t seq) {
  ErrorInfo info =
      located(backend_error(code, error, backend_->name()), op, seq);
  if (error.peer >= 0 && error.peer < identity_.size) info.ranks = {error.peer};
  if (is_refusal(code)) return info;
  if (life_.load(std::memory_order_acquire) == Life::kClosed) {
    info.reason = Reason::kAborted;
    info.what = "the session was closed while the operation ran";
    info.next_step = "wait for operations before closing, or close later";
    return info;
  }
  if (info.reason == Reason::kAborted) {
    // Ended by an abort on this rank: its cause says more than the engine.
    base::MutexLock lock(mutex_);
    if (life_.load(std::memory_order_relaxed) == Life::kBroken)
      info.cause = std::string(base::make_error(first_cause_).message());
  }
  if (info.next_step.empty())
    info.next_step =
        info.reason == Reason::kPeerLost
            ? "look at that rank's own output: it died, was killed, or gave up"
            : "close the session and start a new one";
  abort(info);
  return info;
}

void BackendCommunicator::work_landed() {
  base::MutexLock lock(mutex_);
  --in_flight_;
  landed_.notify_all();
}

bool BackendCommunicator::drain(Deadline deadline) {
  const Life before = life_.exchange(Life::kClosed, std::memory_order_seq_cst);
  if (before == Life::kClosed) return false;
  // A broken group has nothing to wait for: its backend was aborted.
  const Deadline patience =
      before == Life::kBroken ? Deadline::after(kLeaveAfterAbort) : deadline;
  bool idle = CallGuard::wait_until_left(this, patience);
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

void BackendCommunicator::destroy(Deadline deadline) {
  const Deadline patience = Deadline::after(kLeaveAfterAbort);
  bool unused = CallGuard::wait_until_left(this, patience);
  base::MutexLock lock(mutex_);
  if (destroyed_) return;
  while (in_flight_ > 0 && landed_.wait_until(mutex_, patience)) {
  }
  destroyed_ = true;
  // A backend that does not let go keeps its communicator: better a leak than
  // memory freed under its feet.
  unused = unused && in_flight_ == 0;
  if (unused)
    backend_->api().comm_destroy(comm_, deadline.is_never() ? 0 : deadline.ns(),
                                 nullptr);
  comm_ = nullptr;
}

}  // namespace distwrap::comm
