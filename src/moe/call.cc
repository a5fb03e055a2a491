#include "moe/call.h"

#include "base/error.h"
#include "base/exceptions.h"
#include "comm/completion.h"
#include "comm/hooks.h"

#include <absl/strings/str_cat.h>

#include <utility>
#include <vector>

namespace distwrap::moe {

absl::Status compare_calls(const Exchange& exchange, const PlanState& plan,
                           const Fault& fault, const CallFacts& mine) {
  struct Told {
    CallFacts facts;
    int64_t plan = 0;
  };
  const auto ranks = static_cast<size_t>(exchange.size());
  const std::vector<Told> given(ranks, {mine, plan.number});
  std::vector<Told> got;
  const Agreement agreement(exchange);
  absl::Status told = agreement.tell(fault, absl::MakeConstSpan(given), &got);
  if (!told.ok()) return told;
  int first = -1;
  for (int r = 0; r < exchange.size(); ++r) {
    if (!exchange.calls(r)) continue;
    if (first < 0) first = r;
    const Told &leader = got[static_cast<size_t>(first)],
               &one = got[static_cast<size_t>(r)];
    if (one.plan == leader.plan && one.facts == leader.facts) continue;
    const auto text = [](const Told& call) {
      return absl::StrCat(call.facts.kind == 0 ? "dispatch" : "combine",
                          " of rows of ", call.facts.row_bytes, " bytes");
    };
    return exchange.error({.reason = Reason::kCallMismatch,
                           .what = one.plan != leader.plan
                                       ? "ranks use different plans"
                                       : "ranks move different rows",
                           .ranks = {first, r},
                           .expected = text(leader),
                           .actual = text(one),
                           .next_step = "make equal calls on all ranks"});
  }
  return absl::OkStatus();
}

absl::Status refuse_call(const CallPlace& place, PlanState& plan,
                         const ErrorInfo& fault) {
  Exchange exchange(place);
  if (!plan.validate) return exchange.error(fault);
  exchange.mask(plan.parts.masked);
  // Keeps the number of calls equal on all ranks.
  plan.next_call();
  Fault found;
  found.set(fault);
  return compare_calls(exchange, plan, found, {});
}

MoeCall::MoeCall(std::shared_ptr<PlanState> plan, CallPlace place)
    : StagedCall(Exchange(std::move(place))), plan_(std::move(plan)) {
  exchange_.mask(plan_->parts.masked);
}

MoeCall::~MoeCall() {
  if (since_ns_ != 0) plan_->count_waits(call_tag(), since_ns_);
  if (memory_ != nullptr) plan_->give_back(std::move(memory_), limited_);
}

absl::Status MoeCall::open(bool limited) {
  absl::Status lent = plan_->lend(limited, &memory_);
  if (!lent.ok()) return exchange_.finish(lent);
  limited_ = limited;
  return absl::OkStatus();
}

absl::StatusOr<Work> MoeCall::first(bool async) {
  number_ = plan_->next_call();
  since_ns_ = plan_->come_to(call_tag());
  if (plan_->validate)
    if (absl::Status status = compare_calls(exchange_, *plan_, {}, facts());
        !status.ok())
      return status;
  return send_first(async);
}

int64_t MoeCall::call_tag() const {
  constexpr int64_t kCallsOfAPlan = 8192;
  return kCallTag + plan_->number * kCallsOfAPlan +
         (plan_->first_call + number_) % kCallsOfAPlan;
}

absl::Status MoeCall::run() {
  absl::StatusOr<Work> sent = first(false);
  if (!sent.ok()) return sent.status();
  return run_rest(*sent);
}

absl::Status StagedCall::run_rest(const Work& started) {
  if (absl::Status status = started.wait(); !status.ok())
    return exchange_.finish(status);
  if (two_hops_) {
    const absl::StatusOr<Work> handed_on = second(false);
    if (!handed_on.ok()) return handed_on.status();
  }
  end();
  return absl::OkStatus();
}

namespace {

// Takes the next step when a Work has ended, in the thread for callbacks.
class AsyncCall final : public comm::Completion {
 public:
  static Work start(std::unique_ptr<StagedCall> call, const Work& started) {
    auto* const self = new AsyncCall(std::move(call), started);
    Work work = self->handle();
    self->wait_for(started);
    return work;
  }

  bool poll() override {
    Work step;
    if (!while_running([&] { step = step_; })) return false;
    comm::Completion* const cell = comm::Completion::of(step);
    return cell != nullptr && !cell->ended() && cell->poll();
  }
  std::vector<TensorView> result() const override { return {}; }
  absl::Status expired_wait() override {
    return base::make_error(
        {.reason = Reason::kWaitExpired,
         .what = "the call is still running",
         .op = name_,
         .next_step = "wait again, or to the call's own limit"});
  }

 private:
  class Next final : public comm::Completion::Listener {
   public:
    explicit Next(AsyncCall& call) : call_(call) {}
    void ended(comm::CallbackThread& callbacks) override {
      AsyncCall* const call = &call_;
      if (!callbacks.post([call, &callbacks] { call->go_on(callbacks); }))
        call->finish(base::no_memory_error(), callbacks);
    }

   private:
    AsyncCall& call_;  // lives until its last step
  };

  AsyncCall(std::unique_ptr<StagedCall> call, Work started)
      : call_(std::move(call)),
        name_(call_->exchange().place().name),
        step_(std::move(started)) {}
  ~AsyncCall() override = default;

  void wait_for(const Work& step) {
    comm::Completion::Listeners listeners(1, std::make_shared<Next>(*this));
    comm::Completion* const cell = comm::Completion::of(step);
    if (cell != nullptr && cell->listen(listeners)) return;
    // The step has ended already. No callbacks can have been added by a caller
    // that has no handle, or the thread of callbacks is the one that runs this.
    comm::CallbackThread unused;
    go_on(callbacks_ == nullptr ? unused : *callbacks_);
  }

  void go_on(comm::CallbackThread& callbacks) {
    callbacks_ = &callbacks;
    const comm::HookList::Hidden hidden;
    absl::Status status = step_.status();
    if (!status.ok())
      return finish(call_->exchange().finish(status), callbacks);
    if (call_->two_hops() && !handed_on_) {
      handed_on_ = true;
      absl::StatusOr<Work> next =
          base::guarded(name_, [&] { return call_->second(true); });
      if (!next.ok()) return finish(next.status(), callbacks);
      while_running([&] { step_ = *next; });
      return wait_for(*next);
    }
    status = base::guarded(name_, [&] {
      call_->end();
      return absl::OkStatus();
    });
    finish(std::move(status), callbacks);
  }

  void finish(absl::Status status, comm::CallbackThread& callbacks) {
    if (!status.ok()) {
      call_->fails(status);
      call_->exchange().place().communicator->break_by(status);
    }
    call_.reset();
    const WorkState state = status.ok() ? WorkState::kDone
                            : error_reason(status) == Reason::kTimedOut
                                ? WorkState::kTimedOut
                                : WorkState::kFailed;
    end(state, std::move(status), callbacks);
    release_task();
  }

  std::unique_ptr<StagedCall> call_;
  const char* const name_;
  Work step_;
  bool handed_on_ = false;
  comm::CallbackThread* callbacks_ = nullptr;
};

}  // namespace

Work run_async(std::unique_ptr<StagedCall> call, const Work& started) {
  return AsyncCall::start(std::move(call), started);
}

}  // namespace distwrap::moe
