// Operations that are prepared once and started many times.
#include "base/error.h"
#include "base/exceptions.h"
#include "comm/communicator_call.h"
#include "comm/op_build.h"
#include "comm/op_shape.h"

#include <absl/cleanup/cleanup.h>

#include <algorithm>
#include <utility>

namespace distwrap::comm {

absl::StatusOr<std::unique_ptr<PreparedCall>> BackendCommunicator::prepare_call(
    uint16_t kind, const AnyCall& call, const CallOptions& options,
    uint64_t fingerprint) try {
  auto kept = std::make_unique<PreparedOp>();
  if (absl::Status good = prepare(kind, call, options, nullptr, kept.get());
      !good.ok())
    return labelled(options, std::move(good)).status();
  kept->op.fingerprint = fingerprint;
  return make_prepared(std::move(kept));
} catch (...) {
  return base::error_of_exception(op_shape(kind).name);
}

absl::StatusOr<std::unique_ptr<PreparedCall>>
BackendCommunicator::make_prepared(std::unique_ptr<PreparedOp> kept)
    ABSL_NO_THREAD_SAFETY_ANALYSIS {
  const uint16_t kind = kept->op.kind;
  const int64_t timeout_ns = timeout_ns_.load(std::memory_order_relaxed);
  std::unique_ptr<PreparedCall> made(new PreparedCall(*this, std::move(kept)));
  const CallGuard inside(this);
  BiasedLock::Place place = BiasedLock::Place::kAlone;
  if (!lock_.is_of(inside.slot())) {
    if (absl::Status open = check_open(kind); !open.ok()) return open;
    place = lock_.enter(inside.slot(), true,
                        timeout_ns == 0
                            ? Deadline::never()
                            : Deadline::after(absl::Nanoseconds(timeout_ns)));
    if (place == BiasedLock::Place::kNone)
      return refuse_place(kind, timeout_ns);
  }
  const bool beside = place == BiasedLock::Place::kBeside;
  if (beside) lock_.submit_mutex().lock();
  absl::Status status = check_open(kind);
  if (status.ok()) status = make_plans(made.get());
  if (beside) {
    lock_.submit_mutex().unlock();
    lock_.leave();
  }
  if (!status.ok()) return status;
  return made;
}

absl::Status BackendCommunicator::make_plans(PreparedCall* call) {
  end_released_plans();
  const dw_op& op = call->op();
  const auto make = [&](const Runner& at, TablePlan** plan) -> absl::Status {
    dw_error error{};
    error.peer = -1;
    std::unique_ptr<TablePlan> made;
    const int32_t code = TablePlan::make(at, op, &made, &error);
    if (code != DW_OK)
      return base::make_error(
          located(backend_error(code, error, backend_->name()), op.kind, 0));
    if (made == nullptr) return absl::OkStatus();
    base::MutexLock lock(mutex_);
    plans_.push_back(std::move(made));
    *plan = plans_.back().get();
    return absl::OkStatus();
  };
  // The uppermost decorator sees extensions.
  const Runner& waiting = op.next != nullptr ? any_ : runner(op.kind, op.peer);
  if (absl::Status made = make(waiting, &call->waiting_plan_); !made.ok())
    return made;
  call->waiting_ =
      call->waiting_plan_ == nullptr ? waiting : call->waiting_plan_->runner();
  TablePlan* later = call->waiting_plan_;
  if (waiting.comm != any_.comm) {
    if (absl::Status made = make(any_, &call->later_plan_); !made.ok())
      return made;
    later = call->later_plan_;
  }
  call->later_ = later == nullptr ? any_ : later->runner();
  return absl::OkStatus();
}

void BackendCommunicator::end_released_plans() {
  std::vector<std::unique_ptr<TablePlan>> ending;
  base::MutexLock lock(mutex_);
  // An operation in flight may use one of them.
  if (in_flight_ != 0) return;
  for (std::unique_ptr<TablePlan>& plan : plans_)
    if (std::find(released_plans_.begin(), released_plans_.end(), plan.get()) !=
        released_plans_.end())
      ending.push_back(std::move(plan));
  std::erase(plans_, nullptr);
  released_plans_.clear();
}

void BackendCommunicator::release_plans(const PreparedCall& call) {
  // In the child of a fork the mutex may be held for ever.
  if (process_.is_of_parent()) return;
  base::MutexLock lock(mutex_);
  for (TablePlan* const plan : {call.waiting_plan_, call.later_plan_})
    if (plan != nullptr) released_plans_.push_back(plan);
}

absl::StatusOr<Work> BackendCommunicator::start_prepared(
    const PreparedCall& prepared, PreparedCall::Place at,
    const CallOptions& options) try {
  static const AnyCall kNone = {};
  CallOptions how = options;
  if (how.label.empty()) how.label = prepared.label();
  const CallGuard inside(this);
  CallContext context{prepared.op().kind, kNone, how, inside.slot()};
  context.prepared = &prepared;
  context.at = at;
  return run_general(context);
} catch (...) {
  return broken_by_exception(prepared.op().kind);
}

absl::Status BackendCommunicator::build_start(const PreparedCall& prepared,
                                              PreparedCall::Place at,
                                              const CallOptions& options,
                                              dw_op* op) const {
  if (const char* const wrong = prepared.place(at, op); wrong != nullptr)
    return base::make_error(
        located({.reason = Reason::kInvalidArgument,
                 .what = wrong,
                 .next_step = "give buffers that lie as the prepared ones do"},
                op->kind, 0));
  op->timeout_ns = timeout_ns_.load(std::memory_order_relaxed);
  if (!options.timeout.has_value()) return absl::OkStatus();
  if (*options.timeout <= absl::ZeroDuration())
    return refuse_timeout(op->kind, *options.timeout);
  op->timeout_ns = timeout_ns_of(*options.timeout);
  return absl::OkStatus();
}

absl::StatusOr<Work> BackendCommunicator::start_inside(CallContext& context) {
  dw_op op;
  if (absl::Status good =
          build_start(*context.prepared, context.at, context.options, &op);
      !good.ok())
    return labelled(context.options, std::move(good));
  op.deadline_ns = context.deadline_ns;
  return run_built(context, op, context.prepared->kept().own_scale);
}

absl::Status BackendCommunicator::build_shown(const CallContext& context,
                                              PreparedOp* shown) const {
  if (context.prepared == nullptr)
    return prepare(context.kind, context.call, context.options, context.stream,
                   shown);
  shown->label = std::string(context.options.label);
  shown->reduction = context.prepared->kept().reduction;
  return build_start(*context.prepared, context.at, context.options,
                     &shown->op);
}

}  // namespace distwrap::comm
