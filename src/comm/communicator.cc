#include "comm/communicator.h"

#include "base/error.h"
#include "comm/op_build.h"
#include "comm/op_check_divided.h"
#include "comm/op_shape.h"

#include <algorithm>
#include <sched.h>
#include <string.h>
#include <utility>

namespace distwrap::comm {
namespace {

// Member by member: a call that was copied as a whole would have to lie in
// memory, and be written there for every call that goes the short way.
[[gnu::always_inline]] inline AnyCall copy_of(const Call& call) {
  return {{.reduce = call.reduce,
           .out = internal::ViewAccess::copy(call.out),
           .in = internal::ViewAccess::copy(call.in),
           .peer = call.peer,
           .tag = call.tag,
           .op = call.op},
          {}};
}
[[gnu::always_inline]] inline AnyCall copy_of(const DividedCall& call) {
  AnyCall copy = copy_of(static_cast<const Call&>(call));
  copy.per_rank = true;
  copy.out_counts = call.out_counts;
  copy.in_counts = call.in_counts;
  return copy;
}

// What both forms have is written alike.
template <uint16_t kKind>
[[gnu::always_inline]] inline CheckedCall check(const Call& call, int rank,
                                                int size,
                                                const Capabilities& has) {
  return check_call<kKind>(call, rank, size, has);
}
template <uint16_t kKind>
[[gnu::always_inline]] inline CheckedCall check(const DividedCall& call,
                                                int rank, int size,
                                                const Capabilities& has) {
  return check_divided_call<kKind>(call, rank, size, has);
}
[[gnu::always_inline]] inline void fill_more(const Call& /*call*/,
                                             const CheckedCall& /*checked*/,
                                             dw_op* /*op*/) {}
[[gnu::always_inline]] inline void fill_more(const DividedCall& call,
                                             const CheckedCall& checked,
                                             dw_op* op) {
  fill_counts(call.in_counts, call.out_counts, checked, op);
}

}  // namespace

// Ends a synchronous call that its backend cannot time out.
class BackendCommunicator::SyncWatch final : public Watchdog::Watch {
 public:
  SyncWatch(BackendCommunicator& owner, const dw_op& op, int64_t started_ns,
            Deadline deadline, absl::string_view label)
      : owner_(owner), op_(op), started_ns_(started_ns), label_(label) {
    if (deadline.is_never()) return;
    owner_.watchdog_->add(*this, deadline);
    added_ = true;
  }
  ~SyncWatch() override { end(); }
  SyncWatch(const SyncWatch&) = delete;
  SyncWatch& operator=(const SyncWatch&) = delete;

  // Watches no more. Why the call was ended; nothing when it was not.
  std::optional<ErrorInfo> end() {
    if (added_) owner_.watchdog_->remove(*this);
    added_ = false;
    return std::move(late_);
  }

 private:
  Deadline expired() override {
    late_ = owner_.timeout_error(op_);
    late_->elapsed = absl::Nanoseconds(Deadline::now_ns() - started_ns_);
    late_->label = std::string(label_);
    owner_.name_missing(&*late_);
    owner_.work_expired(*late_);
    return Deadline::never();
  }

  BackendCommunicator& owner_;
  const dw_op& op_;
  const int64_t started_ns_;
  const absl::string_view label_;
  bool added_ = false;
  std::optional<ErrorInfo> late_;
};

BackendCommunicator::BackendCommunicator(
    Identity identity, std::shared_ptr<BackendInstance> backend, dw_comm* comm,
    FirstFailure first_failure, std::shared_ptr<Watchdog> watchdog,
    std::shared_ptr<Lane> lane)
    : identity_(std::move(identity)),
      backend_(std::move(backend)),
      capabilities_(backend_->capabilities()),
      waiting_collectives_(backend_->waiting_collectives_of(comm)),
      waiting_messages_(backend_->waiting_messages_of(comm)),
      any_(backend_->any_of(comm)),
      timeout_ns_(timeout_ns_of(identity_.timeout)),
      recorder_(identity_.recorded.recording == nullptr
                    ? nullptr
                    : &identity_.recorded.recording->recorder()),
      recorded_group_(identity_.recorded.group),
      comm_(comm),
      first_failure_(std::move(first_failure)),
      watchdog_(std::move(watchdog)),
      seat_(this, backend_->submits_beside()),
      lane_(std::move(lane)) {
  if (waiting_collectives_.host_watches) watchdog_->start();
  if (identity_.hooks != nullptr) identity_.hooks->attach(seat_);
  if (lane_ != nullptr) lane_->tell(this);
  observed_ = recorder_ != nullptr || lane_ != nullptr;
}

BackendCommunicator::~BackendCommunicator() {
  if (identity_.hooks != nullptr) identity_.hooks->detach(seat_);
}

BackendCommunicator::Ptr BackendCommunicator::make(
    Identity identity, std::shared_ptr<BackendInstance> backend, dw_comm* comm,
    FirstFailure first_failure, std::shared_ptr<Watchdog> watchdog,
    std::shared_ptr<Lane> lane) {
  return Ptr(new BackendCommunicator(std::move(identity), std::move(backend),
                                     comm, std::move(first_failure),
                                     std::move(watchdog), std::move(lane)));
}

void BackendCommunicator::stamp(dw_op* op) {
  // Written by whoever makes the calls; see seq_.
  op->seq = seq_.load(std::memory_order_relaxed) + 1;
  seq_.store(op->seq, std::memory_order_relaxed);
}

// Inlined into each operation, where the kind is a constant. What a finished
// call does not need lies in functions of its own.
template <uint16_t kKind>
[[gnu::always_inline]] inline absl::StatusOr<Work> BackendCommunicator::run(
    const Call& call, const CallOptions& options) {
  return run_form<kKind>(call, options);
}

template <uint16_t kKind>
[[gnu::always_inline]] inline absl::StatusOr<Work>
BackendCommunicator::run_divided(const DividedCall& call,
                                 const CallOptions& options) {
  return run_form<kKind>(call, options);
}

template <uint16_t kKind, class Form>
[[gnu::always_inline]] inline absl::StatusOr<Work>
BackendCommunicator::run_form(const Form& call, const CallOptions& options) {
  const CallGuard inside(this);
  // Nobody has the seat of what is closed or broken.
  if (!seat_.is_of(inside.slot())) [[unlikely]]
    return run_slow(kKind, copy_of(call), options, inside.slot());
  const CheckedCall checked =
      check<kKind>(call, identity_.rank, identity_.size, capabilities_);
  if (checked.fault != Fault::kNone) [[unlikely]]
    return run_long(kKind, copy_of(call), options, {inside.slot()});

  dw_op op;
  fill_op(kKind, call, checked.in_place,
          timeout_ns_.load(std::memory_order_relaxed), &op);
  fill_more(call, checked, &op);
  if (options.timeout.has_value()) [[unlikely]] {
    if (*options.timeout <= absl::ZeroDuration())
      return labelled(options, refuse_timeout(kKind, *options.timeout));
    op.timeout_ns = timeout_ns_of(*options.timeout);
  }
  if constexpr (kOpShapes[kKind].collective()) stamp(&op);
  if (options.async) return submit_async(op, false, options);
  op.flags |= DW_FLAG_CALLER_WAITS;
  if (observed_) return run_observed<kKind>(op, options, inside.slot());
  say_waits(inside.slot(), kOpShapes[kKind].collective());
  const BackendInstance::Runner& by = runner(kKind, op.peer);
  if (by.host_watches)
    return labelled(options, submit_watched(op, options.label));

  dw_error error;
  clear(&error);
  const int32_t code = by.submit(by.comm, &op, nullptr, &error);
  if (code == DW_DONE) [[likely]]
    return Work();
  return labelled(options, finish_slow(op, code, &error));
}

absl::StatusOr<Work> BackendCommunicator::labelled(
    const CallOptions& options, absl::StatusOr<Work> result) {
  if (result.ok() || options.label.empty()) return result;
  return base::amend_error(result.status(), [&](ErrorInfo& info) {
    info.label = std::string(options.label);
  });
}

absl::StatusOr<Work> BackendCommunicator::run_any(uint16_t kind,
                                                  const AnyCall& call,
                                                  const CallOptions& options) {
  const CallGuard inside(this);
  if (!seat_.is_of(inside.slot()))
    return run_slow(kind, call, options, inside.slot());
  return run_long(kind, call, options, {inside.slot()});
}

absl::StatusOr<Work> BackendCommunicator::run_on_stream(
    uint16_t kind, const AnyCall& call, const CallOptions& options,
    const Stream& stream) {
  if (absl::Status fits = check_stream(op_shape(kind).name, stream); !fits.ok())
    return labelled(options, std::move(fits));
  const CallGuard inside(this);
  if (!seat_.is_of(inside.slot()))
    return run_slow(kind, call, options, inside.slot(), &stream);
  Visit visit{inside.slot()};
  visit.stream = &stream;
  return run_long(kind, call, options, visit);
}

absl::StatusOr<Work> BackendCommunicator::run_long(uint16_t kind, AnyCall call,
                                                   const CallOptions& options,
                                                   Visit visit) {
  const CheckedCall checked =
      check_any_call(kind, call, identity_.rank, identity_.size, capabilities_);
  if (checked.fault != Fault::kNone)
    return labelled(options, refuse(checked.fault, kind, call));
  if (options.timeout.has_value() && *options.timeout <= absl::ZeroDuration())
    return labelled(options, refuse_timeout(kind, *options.timeout));
  dw_op op;
  fill_op(kind, call, checked.in_place,
          timeout_ns_.load(std::memory_order_relaxed), &op);
  ScaleBytes scale;
  ListArrays lists;
  const bool own_scale = fill_rest(kind, call, checked, &scale, &lists, &op);
  if (options.timeout.has_value())
    op.timeout_ns = timeout_ns_of(*options.timeout);
  if (call.tag_class != DW_TAG_CLASS_USER)
    op.tag = DW_TAG(call.tag_class, call.tag);
  op.deadline_ns = visit.deadline_ns;
  if (visit.stream != nullptr) put_on_stream(*visit.stream, options.async, &op);
  const bool caller_waits = !options.async && visit.stream == nullptr;
  if (visit.place == Seat::Place::kBeside)
    return submit_beside(op, own_scale, options, caller_waits, visit.seq);
  if (op_shape(kind).collective()) stamp(&op);
  if (visit.seq != nullptr) *visit.seq = op.seq;
  if (!caller_waits) return submit_async(op, own_scale, options);
  op.flags |= DW_FLAG_CALLER_WAITS;
  if (observed_) return run_observed<kAnyKind>(op, options, visit.slot);
  say_waits(visit.slot, op_shape(kind).collective());
  const BackendInstance::Runner& by = runner(op);
  if (by.host_watches)
    return labelled(options, submit_watched(op, options.label));
  dw_error error;
  clear(&error);
  const int32_t code = by.submit(by.comm, &op, nullptr, &error);
  return labelled(options, finish_slow(op, code, &error));
}

// The calls of the short way are made in call_forms.h.
template class CallForms<BackendCommunicator>;

void BackendCommunicator::unstamp(const dw_op& op) {
  if (op.seq == 0) return;
  // Unless another thread has the next one: its operation is under way.
  uint64_t own = op.seq;
  if (seq_.compare_exchange_strong(own, op.seq - 1,
                                   std::memory_order_relaxed) &&
      lane_ != nullptr)
    lane_->retract(op.seq);
}

absl::StatusOr<Work> BackendCommunicator::submit_watched(
    dw_op& op, absl::string_view label) {
  const int64_t started_ns = Deadline::now_ns();
  const Deadline deadline = set_deadline(op, started_ns);
  dw_error error;
  clear(&error);
  int32_t code;
  std::optional<ErrorInfo> late;
  {
    SyncWatch watch(*this, op, started_ns, deadline, label);
    code = submit(op, nullptr, &error);
    late = watch.end();
  }
  if (code == DW_DONE) return Work();
  return failed(op, code, error, std::move(late), started_ns);
}

absl::StatusOr<Work> BackendCommunicator::finish_slow(dw_op& op, int32_t code,
                                                      dw_error* error) {
  if (code == DW_AGAIN) code = submit_again(runner(op), op, nullptr, error);
  if (code == DW_DONE) return Work();
  return failed(op, code, *error, /*late=*/std::nullopt, /*started_ns=*/0);
}

absl::Status BackendCommunicator::failed(const dw_op& op, int32_t code,
                                         const dw_error& error,
                                         std::optional<ErrorInfo> late,
                                         int64_t started_ns) {
  if (is_refusal(code)) unstamp(op);
  ErrorInfo info = late.has_value() ? *std::move(late)
                                    : work_failed(op.kind, op.seq, code, error);
  if (info.reason == Reason::kTimedOut)
    info.deadline = absl::Nanoseconds(op.timeout_ns);
  if (started_ns != 0 && !is_refusal(code))
    info.elapsed = absl::Nanoseconds(Deadline::now_ns() - started_ns);
  return base::make_error(info);
}

int32_t BackendCommunicator::submit(const dw_op& op, dw_work* work,
                                    dw_error* error) {
  const BackendInstance::Runner& by = work == nullptr ? runner(op) : any_;
  const int32_t code = by.submit(by.comm, &op, work, error);
  return code == DW_AGAIN ? submit_again(by, op, work, error) : code;
}

int32_t BackendCommunicator::submit_again(const BackendInstance::Runner& by,
                                          const dw_op& op, dw_work* work,
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
    backend_->progress();
    sched_yield();
    const int32_t code = by.submit(by.comm, &op, work, error);
    if (code != DW_AGAIN) return code;
  }
}

}  // namespace distwrap::comm
