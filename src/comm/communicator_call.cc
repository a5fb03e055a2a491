// The way of a call: check, build, stamp, trace, submit, conclude.
#include "comm/communicator_call.h"

#include "base/error.h"
#include "base/exceptions.h"
#include "comm/on_stream.h"
#include "comm/op_build.h"
#include "comm/op_check_divided.h"
#include "comm/op_shape.h"

#include <absl/cleanup/cleanup.h>

#include <algorithm>
#include <sched.h>
#include <utility>

namespace distwrap::comm {
namespace {

// Copies member by member: a call that is copied as a whole would have to lie
// in memory, and be written there for every plain call.
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
  SyncWatch(Watchdog& watchdog, WorkOwner& owner, const dw_op& op,
            absl::string_view label, int64_t started_ns, Deadline deadline)
      : watchdog_(watchdog),
        owner_(owner),
        op_(op),
        label_(label),
        started_ns_(started_ns) {
    if (deadline.is_never()) return;
    watchdog_.add(*this, deadline);
    added_ = true;
  }
  ~SyncWatch() override { end(); }
  SyncWatch(const SyncWatch&) = delete;
  SyncWatch& operator=(const SyncWatch&) = delete;

  // Stops watching. Returns why the call was ended; nothing when it was not.
  std::optional<ErrorInfo> end() {
    if (added_) watchdog_.remove(*this);
    added_ = false;
    return std::move(late_);
  }

 private:
  Deadline expired() override {
    late_ = owner_.work_timeout(op_);
    late_->label = std::string(label_);
    late_->elapsed = absl::Nanoseconds(Deadline::now_ns() - started_ns_);
    owner_.name_missing(&*late_);
    owner_.work_expired(*late_);
    return Deadline::never();
  }

  Watchdog& watchdog_;
  WorkOwner& owner_;
  const dw_op& op_;
  const absl::string_view label_;
  const int64_t started_ns_;
  bool added_ = false;
  std::optional<ErrorInfo> late_;
};

// Inlined into each operation, where the kind is a constant. Code that a
// finished call does not need lies in separate functions; those catch
// exceptions, since a `try` around the whole call would cost it four
// instructions.
template <uint16_t kKind, class Form>
[[gnu::always_inline]] inline absl::StatusOr<Work> BackendCommunicator::run(
    const Form& call, const CallOptions& options, const Stream* stream) {
  const CallGuard inside(this);
  // A communicator that is closed, broken or shown to hooks has no owner of its
  // lock.
  if (!lock_.is_of(inside.slot())) [[unlikely]]
    return run_copy(kKind, copy_of(call), options, inside.slot(), stream);
  const CheckedCall checked =
      check<kKind>(call, identity_.rank, identity_.size, capabilities_);
  if (checked.fault != Fault::kNone) [[unlikely]]
    return run_copy(kKind, copy_of(call), options, inside.slot(), stream);

  dw_op op;
  fill_op(kKind, call, checked.in_place,
          timeout_ns_.load(std::memory_order_relaxed), &op);
  fill_more(call, checked, &op);
  if (options.timeout.has_value()) [[unlikely]] {
    if (*options.timeout <= absl::ZeroDuration())
      return labelled(options, refuse_timeout(kKind, *options.timeout));
    op.timeout_ns = timeout_ns_of(*options.timeout);
  }
  if (stream != nullptr) return start_on_stream(op, options, *stream);
  if constexpr (kOpShapes[kKind].collective()) stamp(&op);
  if (options.async) return start_and_conclude(op, options);
  op.flags |= DW_FLAG_CALLER_WAITS;
  const Runner& by = runner(kKind, op.peer);
  if (traced_) return wait_traced<kKind>(op, options, by, inside.slot());
  if (by.host_attends) return wait_attended(op, options, by, inside.slot());
  say_waits(inside.slot(), kOpShapes[kKind].collective());
  dw_error error;
  clear(&error);
  const int32_t code = by.submit(by.comm, &op, nullptr, &error);
  if (code == DW_DONE) [[likely]]
    return Work();
  return wait_again(op, code, &error, options,
                    entry(kKind, op.peer, inside.slot()));
}

// call_forms.h makes the calls.
template class CallForms<BackendCommunicator>;
template class CallForms<OnStream>;

template <uint16_t kKind>
[[gnu::noinline]] absl::StatusOr<Work> BackendCommunicator::wait_prompt(
    dw_op& op, const CallOptions& options, const Runner& by,
    CallGuard::Slot& slot) try {
  return wait_for<kKind>(op, options, entry(by, slot));
} catch (...) {
  return broken_by_exception(op.kind);
}

template <uint16_t kKind>
[[gnu::noinline]] absl::StatusOr<Work> BackendCommunicator::wait_later(
    dw_op& op, const CallOptions& options, const Runner& by,
    CallGuard::Slot& slot) try {
  LaterTrace<kKind> trace(*this, slot, op, options.label);
  return wait_with(trace, op, options, entry(by, slot));
} catch (...) {
  return broken_by_exception(op.kind);
}

// Two functions, so that neither saves what the other one needs.
template <uint16_t kKind>
[[gnu::always_inline]] inline absl::StatusOr<Work>
BackendCommunicator::wait_traced(dw_op& op, const CallOptions& options,
                                 const Runner& by, CallGuard::Slot& slot) {
  return by.says_under_way() ? wait_later<kKind>(op, options, by, slot)
                             : wait_prompt<kKind>(op, options, by, slot);
}

absl::StatusOr<Work> BackendCommunicator::wait_attended(
    dw_op& op, const CallOptions& options, const Runner& by,
    CallGuard::Slot& slot) {
  say_registered(&op);
  return wait_traced<kAnyKind>(op, options, by, slot);
}

absl::StatusOr<Work> BackendCommunicator::run_copy(uint16_t kind, AnyCall call,
                                                   const CallOptions& options,
                                                   CallGuard::Slot& slot,
                                                   const Stream* stream) try {
  return run_general({kind, call, options, slot, stream});
} catch (...) {
  return broken_by_exception(kind);
}

absl::StatusOr<Work> BackendCommunicator::run_any(uint16_t kind,
                                                  const AnyCall& call,
                                                  const CallOptions& options,
                                                  const Stream* stream) try {
  const CallGuard inside(this);
  return run_general({kind, call, options, inside.slot(), stream});
} catch (...) {
  return broken_by_exception(kind);
}

absl::StatusOr<Work> BackendCommunicator::run_general(CallContext context) {
  if (context.stream != nullptr)
    if (absl::Status fits =
            check_stream(op_shape(context.kind).name, *context.stream);
        !fits.ok())
      return labelled(context.options, std::move(fits));
  if (lock_.is_of(context.slot)) return run_inside(context);
  if (absl::Status open = check_open(context.kind); !open.ok())
    return labelled(context.options, std::move(open));
  if (identity_.hooks != nullptr && identity_.hooks->wanted())
    return run_hooked(context);
  return run_locked(context);
}

// Keeps the communicator while a call is in hooks, which may end the group.
class BackendCommunicator::HookScope {
 public:
  explicit HookScope(BackendCommunicator& communicator)
      : communicator_(communicator) {
    base::MutexLock lock(communicator_.mutex_);
    ++communicator_.in_hooks_;
  }
  ~HookScope() {
    if (is_last()) delete &communicator_;
  }
  HookScope(const HookScope&) = delete;
  HookScope& operator=(const HookScope&) = delete;

 private:
  bool is_last() {
    base::MutexLock lock(communicator_.mutex_);
    return --communicator_.in_hooks_ == 0 && communicator_.freed_by_hooks_;
  }

  BackendCommunicator& communicator_;
};

absl::StatusOr<Work> BackendCommunicator::run_hooked(CallContext context) {
  const CallOptions& options = context.options;
  PreparedOp prepared;
  if (absl::Status good = build_shown(context, &prepared); !good.ok())
    return labelled(options, std::move(good));
  const Deadline deadline = set_deadline(prepared.op, Deadline::now_ns());
  const auto hooks = std::make_shared<HookRun>(identity_.hooks);
  show(prepared, *hooks);
  hooks->call().async = options.async;
  const HookScope scope(*this);
  // Calls on guarded objects do not nest, and hooks may call.
  context.slot.store(0, std::memory_order_release);
  if (absl::Status refused = hooks->pre(); !refused.ok()) {
    const ErrorInfo info = hooks->refusal(refused);
    refused_by_hook(info);
    absl::Status error = base::make_error(info);
    hooks->post(error);
    return error;
  }
  absl::StatusOr<Work> result;
  {
    const CallGuard inside(this);
    context.deadline_ns = deadline.is_never() ? 0 : deadline.ns();
    context.seq = &hooks->call().seq;
    absl::Status open = check_open(context.kind);
    result =
        open.ok() ? run_locked(context) : labelled(options, std::move(open));
  }
  hooks->post(result.status());
  if (result.ok() && (options.async || context.stream != nullptr))
    hooks->completes(*result);
  return result;
}

void BackendCommunicator::show(const PreparedOp& prepared, HookRun& run) const {
  run.describe(prepared.op, prepared.reduction, prepared.label,
               backend_->device());
}

void BackendCommunicator::refused_by_hook(ErrorInfo refusal) {
  // The rank that failed is this one.
  refusal.ranks.clear();
  work_expired(refusal);
}

absl::StatusOr<Work> BackendCommunicator::run_locked(CallContext context) {
  const CallOptions& options = context.options;
  int64_t timeout_ns = timeout_ns_.load(std::memory_order_relaxed);
  if (options.timeout.has_value()) {
    if (*options.timeout <= absl::ZeroDuration())
      return labelled(options, refuse_timeout(context.kind, *options.timeout));
    timeout_ns = timeout_ns_of(*options.timeout);
  }
  if (has_queued() && !options.async && context.stream == nullptr)
    if (absl::Status left = wait_for_queue(context, timeout_ns); !left.ok())
      return labelled(options, std::move(left));
  const bool collective = op_shape(context.kind).collective();
  context.place = lock_.enter(context.slot, collective, Deadline::at_ns(0));
  if (context.place == BiasedLock::Place::kNone) {
    // Only a call that has to wait reads the clock.
    const Deadline deadline =
        context.deadline_ns != 0 ? Deadline::at_ns(context.deadline_ns)
        : timeout_ns == 0        ? Deadline::never()
                          : Deadline::after(absl::Nanoseconds(timeout_ns));
    context.place = lock_.enter(context.slot, collective, deadline);
    if (context.place == BiasedLock::Place::kNone)
      return labelled(options, refuse_place(context.kind, timeout_ns));
    if (!deadline.is_never()) context.deadline_ns = deadline.ns();
  }
  const absl::Cleanup leave = [&] {
    if (context.place == BiasedLock::Place::kBeside) lock_.leave();
  };
  absl::Status open = check_open(context.kind);
  return open.ok() ? run_inside(context) : labelled(options, std::move(open));
}

absl::StatusOr<Work> BackendCommunicator::run_inside(CallContext& context) {
  if (context.prepared != nullptr) return start_inside(context);
  const CallOptions& options = context.options;
  dw_op op;
  ScaleBytes scale;
  ListArrays lists;
  bool own_scale;
  if (absl::Status good = check_and_build(context.kind, context.call, options,
                                          &scale, &lists, &own_scale, &op);
      !good.ok())
    return labelled(options, std::move(good));
  op.deadline_ns = context.deadline_ns;
  if (context.stream != nullptr)
    if (absl::Status put = put_on_stream(*context.stream, options.async, &op);
        !put.ok())
      return labelled(options, std::move(put));
  return run_built(context, op, own_scale);
}

absl::StatusOr<Work> BackendCommunicator::run_built(CallContext& context,
                                                    dw_op& op, bool own_scale) {
  const CallOptions& options = context.options;
  const PreparedCall* const prepared = context.prepared;
  const Runner& later = prepared == nullptr ? any_ : prepared->later();
  const bool caller_waits = !options.async && context.stream == nullptr;
  const bool collective = op_shape(context.kind).collective();
  say_registered(&op);
  if (context.place == BiasedLock::Place::kBeside) {
    Started started;
    {
      base::MutexLock lock(lock_.submit_mutex());
      if (collective) stamp(&op);
      if (context.seq != nullptr) *context.seq = op.seq;
      started = start_by(later, op, options, own_scale, *this, record_numbers_);
    }
    absl::StatusOr<Work> work =
        conclude(op, std::move(started), *this, options);
    if (!work.ok() || !caller_waits) return work;
    if (absl::Status ended = work->wait(); !ended.ok()) return ended;
    return Work();
  }
  if (collective) stamp(&op);
  if (context.seq != nullptr) *context.seq = op.seq;
  if (!caller_waits)
    return conclude(
        op, start_by(later, op, options, own_scale, *this, record_numbers_),
        *this, options);
  op.flags |= DW_FLAG_CALLER_WAITS;
  // The uppermost decorator sees an extension: it may have to do what the
  // backend below cannot.
  const Runner& by = prepared != nullptr  ? prepared->waiting()
                     : op.next != nullptr ? any_
                                          : runner(op.kind, op.peer);
  return wait_traced<kAnyKind>(op, options, by, context.slot);
}

absl::Status BackendCommunicator::check_and_build(
    uint16_t kind, const AnyCall& call, const CallOptions& options,
    ScaleBytes* scale, ListArrays* lists, bool* own_scale, dw_op* op) const {
  const CheckedCall checked =
      check_any_call(kind, call, identity_.rank, identity_.size, capabilities_);
  if (checked.fault != Fault::kNone) return refuse(checked.fault, kind, call);
  if (options.timeout.has_value() && *options.timeout <= absl::ZeroDuration())
    return refuse_timeout(kind, *options.timeout);
  fill_op(kind, call, checked.in_place,
          timeout_ns_.load(std::memory_order_relaxed), op);
  *own_scale = fill_rest(kind, call, checked, scale, lists, op);
  if (options.timeout.has_value())
    op->timeout_ns = timeout_ns_of(*options.timeout);
  if (call.tag_class != DW_TAG_CLASS_USER)
    op->tag = DW_TAG(call.tag_class, call.tag);
  return absl::OkStatus();
}

absl::Status BackendCommunicator::check_open(uint16_t kind) const {
  if (!process_.is_of_parent() &&
      life_.load(std::memory_order_seq_cst) == Life::kOpen)
    return absl::OkStatus();
  return refuse_closed(kind);
}

void BackendCommunicator::say_registered(dw_op* op) const {
  if ((capabilities_.registering() & DW_BIT(op->kind)) == 0) return;
  constexpr uint32_t kDivided = DW_FLAG_PER_RANK | DW_FLAG_PARTS;
  const Allocations& known = backend_->allocations();
  if (!known.any() || (op->flags & kDivided) != 0) return;
  const bool all = (op->in.data == nullptr || known.have(op->in.data)) &&
                   (op->out.data == nullptr || known.have(op->out.data));
  const bool some = op->in.data != nullptr || op->out.data != nullptr;
  if (some && all) op->flags |= DW_FLAG_REGISTERED;
}

void BackendCommunicator::stamp(dw_op* op) {
  // Only one thread at a time comes here; see seq_.
  op->seq = seq_.load(std::memory_order_relaxed) + 1;
  seq_.store(op->seq, std::memory_order_relaxed);
}

void BackendCommunicator::unstamp(const dw_op& op) {
  if (op.seq == 0) return;
  // The number is taken back unless another thread already has the next one;
  // that operation is under way.
  uint64_t own = op.seq;
  if (seq_.compare_exchange_strong(own, op.seq - 1,
                                   std::memory_order_relaxed) &&
      trace_.board != nullptr)
    trace_.board->retract(op.seq);
}

absl::StatusOr<Work> BackendCommunicator::wait_watched(
    dw_op& op, const CallOptions& options, const Entry& entry) try {
  const Runner& by = entry.runner;
  const int64_t started_ns = Deadline::now_ns();
  const Deadline deadline = set_deadline(op, started_ns);
  dw_error error;
  clear(&error);
  int32_t code;
  std::optional<ErrorInfo> late;
  {
    SyncWatch watch(*watchdog_, entry.owner, op, options.label, started_ns,
                    deadline);
    code = by.submit(by.comm, &op, nullptr, &error);
    if (code == DW_AGAIN) code = submit_again(by, op, nullptr, &error);
    late = watch.end();
  }
  if (code == DW_DONE) return Work();
  const bool refused = is_refusal(code);
  if (refused) unstamp(op);
  absl::Status status =
      conclude(op, code, error, entry.owner, options, std::move(late));
  if (refused) return status;
  return base::amend_error(status, [&](ErrorInfo& info) {
    info.elapsed = absl::Nanoseconds(Deadline::now_ns() - started_ns);
  });
} catch (...) {
  return broken_by_exception(op.kind);
}

absl::StatusOr<Work> BackendCommunicator::wait_again(dw_op& op, int32_t code,
                                                     dw_error* error,
                                                     const CallOptions& options,
                                                     const Entry& entry) try {
  if (code == DW_AGAIN) code = submit_again(entry.runner, op, nullptr, error);
  if (code == DW_DONE) return Work();
  if (is_refusal(code)) unstamp(op);
  return conclude(op, code, *error, entry.owner, options);
} catch (...) {
  return broken_by_exception(op.kind);
}

int32_t BackendCommunicator::submit_again(const Runner& by, const dw_op& op,
                                          dw_work* work, dw_error* error) {
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

absl::Status BackendCommunicator::conclude(const dw_op& op, int32_t code,
                                           const dw_error& error,
                                           WorkOwner& owner,
                                           const CallOptions& options,
                                           std::optional<ErrorInfo> late) {
  ErrorInfo info =
      late.has_value() ? *std::move(late) : owner.work_failed(op, code, error);
  if (info.reason == Reason::kTimedOut) {
    info.deadline = absl::Nanoseconds(op.timeout_ns);
    // A backend that keeps the deadline itself does not say how long it waited.
    info.elapsed = std::max(info.elapsed, info.deadline);
  }
  if (!options.label.empty()) info.label = std::string(options.label);
  return base::make_error(info);
}

absl::StatusOr<Work> BackendCommunicator::labelled(
    const CallOptions& options, absl::StatusOr<Work> result) try {
  if (result.ok() || options.label.empty()) return result;
  return base::amend_error(result.status(), [&](ErrorInfo& info) {
    info.label = std::string(options.label);
  });
} catch (...) {
  return base::error_of_exception("");
}

bool BackendCommunicator::is_refusal(int32_t code) {
  return code == DW_INVALID_ARGUMENT || code == DW_UNIMPLEMENTED ||
         code == DW_INCOMPATIBLE;
}

}  // namespace distwrap::comm
