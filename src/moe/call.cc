#include "moe/call.h"

#include "base/error.h"
#include "base/exceptions.h"
#include "comm/completion.h"
#include "comm/hooks.h"

#include <utility>

namespace distwrap::moe {

MoeCall::MoeCall(std::shared_ptr<PlanState> plan, CallPlace place)
    : plan_(std::move(plan)), exchange_(std::move(place)) {
  exchange_.mask(plan_->parts.masked);
}

MoeCall::~MoeCall() {
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
  return send_first(async);
}

int64_t MoeCall::call_tag() const {
  constexpr int64_t kCallsOfAPlan = 8192;
  return kCallTag + plan_->number * kCallsOfAPlan + number_ % kCallsOfAPlan;
}

absl::Status MoeCall::run() {
  absl::StatusOr<Work> sent = first(false);
  if (!sent.ok()) return sent.status();
  return run_rest(*sent);
}

absl::Status MoeCall::run_rest(const Work& started) {
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
  static Work start(std::unique_ptr<MoeCall> call, const Work& started) {
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

  AsyncCall(std::unique_ptr<MoeCall> call, Work started)
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
    if (!status.ok()) call_->exchange().place().communicator->break_by(status);
    call_.reset();
    const WorkState state = status.ok() ? WorkState::kDone
                            : error_reason(status) == Reason::kTimedOut
                                ? WorkState::kTimedOut
                                : WorkState::kFailed;
    end(state, std::move(status), callbacks);
    release_task();
  }

  std::unique_ptr<MoeCall> call_;
  const char* const name_;
  Work step_;
  bool handed_on_ = false;
  comm::CallbackThread* callbacks_ = nullptr;
};

}  // namespace

Work run_async(std::unique_ptr<MoeCall> call, const Work& started) {
  return AsyncCall::start(std::move(call), started);
}

}  // namespace distwrap::moe
