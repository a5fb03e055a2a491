#include "moe/pending.h"

#include "base/error.h"
#include "base/exceptions.h"
#include "comm/hooks.h"
#include "distwrap/moe_plan.h"

#include <utility>

namespace distwrap::moe {

PendingState::~PendingState() {
  // Peers wait for what this rank hands on.
  if (call_ == nullptr) return;
  const std::shared_ptr<PlanState> plan = call_->shared_plan();
  if (const absl::Status status = finish(); !status.ok())
    plan->keep_error(status);
}

absl::Status PendingState::finish() {
  if (call_ == nullptr)
    return base::make_error({.reason = Reason::kAlreadySubmitted,
                             .what = "the pending call was finished already",
                             .op = "finish",
                             .next_step = "finish each pending call once"});
  const std::unique_ptr<MoeCall> call = std::move(call_);
  call->waits_from_now();
  const comm::HookList::Hidden hidden;
  return base::guarded(call->exchange().place().name,
                       [&] { return call->run_rest(started_); });
}

}  // namespace distwrap::moe

namespace distwrap {

MoePending::MoePending() = default;
MoePending::MoePending(std::unique_ptr<moe::PendingState> state)
    : state_(std::move(state)) {}
MoePending::MoePending(MoePending&& other) noexcept = default;
MoePending& MoePending::operator=(MoePending&& other) noexcept = default;
MoePending::~MoePending() = default;

absl::StatusOr<Work> MoePending::finish() {
  if (state_ == nullptr)
    return base::make_error({.reason = Reason::kInvalidArgument,
                             .what = "there is no pending call",
                             .op = "finish",
                             .next_step = "finish what a start returned"});
  absl::Status status = state_->finish();
  if (!status.ok()) return status;
  return Work();
}

}  // namespace distwrap
