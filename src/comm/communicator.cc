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

// Into a buffer that is zero.
void fill_buffer(const TensorView& view, dw_buf* buffer) {
  buffer->data = view.data();
  buffer->count = view.count();
  buffer->dtype = kAbiDTypes[static_cast<uint8_t>(view.dtype())];
}

// Zeroes an op. Left to itself, gcc does it with `rep stos`, whose start-up
// costs more than all else here.
[[gnu::always_inline]] inline void clear(dw_op* op) {
  typedef uint64_t Pair __attribute__((vector_size(16), may_alias, aligned(8)));
  // Rounded down; the rest is `next`, below.
  // NOLINTNEXTLINE(bugprone-sizeof-expression)
  constexpr size_t kPairs = sizeof(dw_op) / sizeof(Pair);
  Pair* const at = reinterpret_cast<Pair*>(op);
#pragma GCC unroll 16
  for (size_t i = 0; i < kPairs; ++i) at[i] = Pair{};
  static_assert(offsetof(dw_op, next) == kPairs * sizeof(Pair));
  op->next = nullptr;
}

// What is read of an error that the backend may not fill in.
void clear(dw_error* error) {
  error->reason = DW_REASON_NONE;
  error->peer = -1;
  error->native = 0;
  error->text[0] = 0;
}

// 0 for none.
int64_t timeout_ns_of(absl::Duration timeout) {
  return timeout == absl::InfiniteDuration()
             ? 0
             : absl::ToInt64Nanoseconds(timeout);
}

// From `timeout_ns` of the op.
Deadline set_deadline(dw_op& op, int64_t now_ns) {
  if (op.timeout_ns == 0 ||
      __builtin_add_overflow(now_ns, op.timeout_ns, &op.deadline_ns)) {
    op.deadline_ns = 0;
    return Deadline::never();
  }
  return Deadline::at_ns(op.deadline_ns);
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

}  // namespace

// Ends a synchronous call that its backend cannot time out.
class BackendCommunicator::SyncWatch final : public Watchdog::Watch {
 public:
  SyncWatch(BackendCommunicator& owner, const dw_op& op, Deadline deadline)
      : owner_(owner), op_(op) {
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
    owner_.work_expired(owner_.timeout_error(op_));
    return Deadline::never();
  }

  BackendCommunicator& owner_;
  const dw_op& op_;
  bool added_ = false;
  std::atomic<bool> fired_{false};
};

BackendCommunicator::BackendCommunicator(
    Identity identity, std::shared_ptr<BackendInstance> backend, dw_comm* comm,
    FirstFailure first_failure, Watchdog& watchdog)
    : identity_(std::move(identity)),
      backend_(std::move(backend)),
      capabilities_(backend_->capabilities()),
      submit_(backend_->api().submit),
      comm_(comm),
      timeout_ns_(timeout_ns_of(identity_.timeout)),
      host_watches_((backend_->api().flags & DW_BACKEND_HOST_WATCHES) != 0),
      first_failure_(std::move(first_failure)),
      watchdog_(watchdog) {
  if (host_watches_) watchdog_.start();
}

BackendCommunicator::~BackendCommunicator() {
  drain(Deadline::after(absl::ZeroDuration()));
  destroy(Deadline::after(absl::ZeroDuration()));
}

// Inlined into each operation, where the kind is a constant. What a finished
// call does not need lies in functions of its own.
template <uint16_t kKind>
[[gnu::always_inline]] inline absl::StatusOr<Work> BackendCommunicator::run(
    const Call& call, const CallOptions& options) {
  const CallGuard inside(this);
  if (life_.load(std::memory_order_seq_cst) != Life::kOpen) [[unlikely]]
    return refuse_closed(kKind);
  const CheckedCall checked =
      check_call<kKind>(call, identity_.rank, identity_.size, capabilities_);
  if (checked.fault != Fault::kNone) [[unlikely]]
    return refuse(checked.fault, kKind, call);

  dw_op op;
  clear(&op);
  op.struct_size = sizeof(dw_op);
  op.kind = kKind;
  op.reduce = call.reduce;
  op.flags = checked.in_place ? DW_FLAG_IN_PLACE : 0;
  op.peer = call.peer;
  op.tag = static_cast<uint64_t>(call.tag);
  fill_buffer(call.in, &op.in);
  fill_buffer(call.out, &op.out);
  op.stream.device_type = DW_DEVICE_CPU;
  op.timeout_ns = timeout_ns_;
  if (options.timeout.has_value()) [[unlikely]] {
    if (*options.timeout <= absl::ZeroDuration())
      return refuse_timeout(kKind, *options.timeout);
    op.timeout_ns = timeout_ns_of(*options.timeout);
  }
  if constexpr (kOpShapes[kKind].collective()) {
    op.seq = seq_.load(std::memory_order_relaxed) + 1;
    seq_.store(op.seq, std::memory_order_relaxed);
  }
  if (options.async) return submit_async(op);
  op.flags |= DW_FLAG_CALLER_WAITS;
  if (host_watches_) return submit_watched(op);

  dw_error error;
  clear(&error);
  const int32_t code = submit_(comm_, &op, nullptr, &error);
  if (code == DW_DONE) [[likely]]
    return Work();
  return finish_slow(op, code, &error);
}

absl::StatusOr<Work> BackendCommunicator::barrier(const CallOptions& options) {
  return run<DW_OP_BARRIER>({}, options);
}

absl::StatusOr<Work> BackendCommunicator::broadcast(
    TensorView out, TensorView in, int root, const CallOptions& options) {
  return run<DW_OP_BROADCAST>({.out = out,
                               .in = root == identity_.rank ? in : TensorView(),
                               .peer = root},
                              options);
}

absl::StatusOr<Work> BackendCommunicator::all_reduce(
    TensorView out, TensorView in, ReduceOp op, const CallOptions& options) {
  return run<DW_OP_ALL_REDUCE>(
      {.reduce = static_cast<uint16_t>(op), .out = out, .in = in}, options);
}

absl::StatusOr<Work> BackendCommunicator::all_gather(
    TensorView out, TensorView in, const CallOptions& options) {
  return run<DW_OP_ALL_GATHER>({.out = out, .in = in}, options);
}

absl::StatusOr<Work> BackendCommunicator::reduce_scatter(
    TensorView out, TensorView in, ReduceOp op, const CallOptions& options) {
  return run<DW_OP_REDUCE_SCATTER>(
      {.reduce = static_cast<uint16_t>(op), .out = out, .in = in}, options);
}

absl::StatusOr<Work> BackendCommunicator::all_to_all(
    TensorView out, TensorView in, const CallOptions& options) {
  return run<DW_OP_ALL_TO_ALL>({.out = out, .in = in}, options);
}

absl::StatusOr<Work> BackendCommunicator::send(TensorView in, int peer,
                                               int64_t tag,
                                               const CallOptions& options) {
  return run<DW_OP_SEND>({.in = in, .peer = peer, .tag = tag}, options);
}

absl::StatusOr<Work> BackendCommunicator::recv(TensorView out, int peer,
                                               int64_t tag,
                                               const CallOptions& options) {
  return run<DW_OP_RECV>({.out = out, .peer = peer, .tag = tag}, options);
}

void BackendCommunicator::unstamp(const dw_op& op) {
  if (op.seq != 0) seq_.store(op.seq - 1, std::memory_order_relaxed);
}

absl::StatusOr<Work> BackendCommunicator::submit_watched(dw_op& op) {
  const int64_t started_ns = Deadline::now_ns();
  const Deadline deadline = set_deadline(op, started_ns);
  dw_error error;
  clear(&error);
  int32_t code;
  bool expired;
  {
    SyncWatch watch(*this, op, deadline);
    code = submit(op, nullptr, &error);
    expired = watch.fired();
  }
  if (code == DW_DONE) return Work();
  return failed(op, code, error, expired, started_ns);
}

absl::StatusOr<Work> BackendCommunicator::finish_slow(dw_op& op, int32_t code,
                                                      dw_error* error) {
  if (code == DW_AGAIN) code = submit_again(op, nullptr, error);
  if (code == DW_DONE) return Work();
  return failed(op, code, *error, /*expired=*/false, /*started_ns=*/0);
}

absl::Status BackendCommunicator::failed(const dw_op& op, int32_t code,
                                         const dw_error& error, bool expired,
                                         int64_t started_ns) {
  if (is_refusal(code)) unstamp(op);
  ErrorInfo info =
      expired ? timeout_error(op) : work_failed(op.kind, op.seq, code, error);
  if (started_ns != 0)
    info.elapsed = absl::Nanoseconds(Deadline::now_ns() - started_ns);
  return base::make_error(info);
}

absl::StatusOr<Work> BackendCommunicator::submit_async(dw_op& op) {
  const Deadline deadline = set_deadline(op, Deadline::now_ns());
  auto* const cell =
      new WorkCell(*this, watchdog_, op, deadline, timeout_error(op));
  Work work = cell->handle();
  {
    base::MutexLock lock(mutex_);
    ++in_flight_;
  }
  cell->take_off();
  dw_error error;
  clear(&error);
  const int32_t code = submit(op, cell->abi(), &error);
  if (code == DW_OK) return work;
  if (code == DW_DONE) {
    cell->land(WorkState::kDone);
    return work;
  }
  if (is_refusal(code)) unstamp(op);
  const ErrorInfo info = work_failed(op.kind, op.seq, code, error);
  cell->land(WorkState::kFailed, info);
  return base::make_error(info);
}

int32_t BackendCommunicator::submit(const dw_op& op, dw_work* work,
                                    dw_error* error) {
  const int32_t code = submit_(comm_, &op, work, error);
  return code == DW_AGAIN ? submit_again(op, work, error) : code;
}

int32_t BackendCommunicator::submit_again(const dw_op& op, dw_work* work,
                                          dw_error* error) {
  const Deadline deadline =
      op.deadline_ns != 0  ? Deadline::at_ns(op.deadline_ns)
      : op.timeout_ns != 0 ? Deadline::after(absl::Nanoseconds(op.timeout_ns))
                           : Deadline::never();
  for (;;) {
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
    backend_->api().progress(backend_->backend());
    sched_yield();
    const int32_t code = submit_(comm_, &op, work, error);
    if (code != DW_AGAIN) return code;
  }
}

void BackendCommunicator::abort(ErrorInfo cause) {
  const dw_error why = abi_error(cause);
  {
    base::MutexLock lock(mutex_);
    Life open = Life::kOpen;
    if (life_.compare_exchange_strong(open, Life::kBroken))
      first_cause_ = std::move(cause);
    if (abort_ != Abort::kNone || destroyed_) return;
    abort_ = Abort::kRunning;
  }
  // Off the lock: the backend may complete operations in here.
  backend_->api().comm_abort(comm_, &why);
  base::MutexLock lock(mutex_);
  abort_ = Abort::kDone;
  landed_.notify_all();
}

void BackendCommunicator::work_expired(const ErrorInfo& cause) {
  first_failure_.agree(cause);
  abort(cause);
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
  while ((in_flight_ > 0 || abort_ == Abort::kRunning) &&
         landed_.wait_until(mutex_, patience)) {
  }
  destroyed_ = true;
  // A backend that does not let go keeps its communicator: better a leak than
  // memory freed under its feet.
  unused = unused && in_flight_ == 0 && abort_ != Abort::kRunning;
  if (unused)
    backend_->api().comm_destroy(comm_, deadline.is_never() ? 0 : deadline.ns(),
                                 nullptr);
  comm_ = nullptr;
}

}  // namespace distwrap::comm
