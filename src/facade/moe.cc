// Mixture-of-experts calls: group, checks and hooks around the layer moe.
#include "distwrap/moe.h"

#include "base/error.h"
#include "base/exceptions.h"
#include "facade/moe_place.h"
#include "moe/build.h"
#include "moe/combine_call.h"
#include "moe/dispatch_call.h"
#include "moe/pending.h"

#include <utility>

namespace distwrap {
namespace {

using facade::refuse;
using facade::run_moe;
using facade::shown_moe;
using moe::CallPlace;

absl::StatusOr<CallPlace> place_of(const char* name, const MoePlan& plan,
                                   const OpOptions& options) {
  if (!plan)
    return base::make_error({.reason = Reason::kPlanMismatch,
                             .what = "there is no plan",
                             .op = name,
                             .next_step = "make one with moe_plan"});
  return facade::moe_place(name, plan.state()->group, options);
}

absl::Status refuse_async(const CallPlace& place) {
  return refuse(place, {.reason = Reason::kInvalidArgument,
                        .what = "this call does not take `async`",
                        .next_step = "leave `async` out, or call in a thread"});
}

absl::StatusOr<MoePending> start(std::unique_ptr<moe::MoeCall> call) {
  if (absl::Status opened = call->open(true); !opened.ok()) return opened;
  absl::StatusOr<Work> sent = call->first(true);
  if (!sent.ok()) return sent.status();
  return MoePending(
      std::make_unique<moe::PendingState>(std::move(call), *std::move(sent)));
}

}  // namespace

namespace facade {

absl::StatusOr<CallPlace> moe_place(const char* name,
                                    std::shared_ptr<group::GroupState> group,
                                    const OpOptions& options,
                                    StreamFault stream) {
  CallPlace place{.name = name,
                  .group = std::move(group),
                  .timeout = options.timeout,
                  .label = std::string(options.label)};
  place.communicator = place.group->find(kCpu);
  if (place.communicator == nullptr)
    return place.group->no_communicator(kCpu, name);
  if (options.stream.native != nullptr && stream == StreamFault::kRefused)
    return refuse(place, no_stream());
  if (options.group && options.group.state() != place.group)
    return refuse(place, {.reason = Reason::kPlanMismatch,
                          .what = "the plan belongs to another group",
                          .expected = place.group->name(),
                          .actual = std::string(options.group.name()),
                          .next_step = "make a plan for this group"});
  return place;
}

absl::StatusOr<Work> wait_for_moe(moe::MoeCall& call) {
  if (absl::Status opened = call.open(false); !opened.ok()) return opened;
  if (absl::Status status = call.run(); !status.ok()) return status;
  return Work();
}

absl::StatusOr<Work> start_moe(std::unique_ptr<moe::MoeCall> call) {
  if (absl::Status opened = call->open(false); !opened.ok()) return opened;
  absl::StatusOr<Work> sent = call->first(true);
  if (!sent.ok()) return sent.status();
  return moe::run_async(std::move(call), *sent);
}

}  // namespace facade

absl::StatusOr<MoePlan> moe_plan(TensorView routing, const MoeOptions& moe,
                                 const OpOptions& options, MoePlan reuse) try {
  const char* const name = "moe_plan";
  std::shared_ptr<group::GroupState> group =
      facade::kept_group_of(options.group);
  if (group == nullptr) return facade::not_initialized(name);
  absl::StatusOr<CallPlace> place =
      facade::moe_place(name, std::move(group), options);
  if (!place.ok()) return place.status();
  if (options.async) return refuse_async(*place);
  std::shared_ptr<moe::PlanState> memory = reuse.state();
  reuse = {};
  return shown_moe(*place, {&routing, 1}, {}, options,
                   [&]() -> absl::StatusOr<MoePlan> {
                     absl::StatusOr<std::shared_ptr<moe::PlanState>> state =
                         moe::build(*place, routing, moe, std::move(memory));
                     if (!state.ok()) return state.status();
                     return MoePlan(*std::move(state));
                   });
} catch (...) {
  return base::error_of_exception("moe_plan");
}

absl::StatusOr<Work> moe_dispatch(const MoePlan& plan, TensorView x,
                                  TensorView out,
                                  absl::Span<const SideChannel> side,
                                  const OpOptions& options) try {
  absl::StatusOr<CallPlace> place = place_of("moe_dispatch", plan, options);
  if (!place.ok()) return place.status();
  const auto fault = moe::DispatchCall::find_fault(*plan.state(), x, out, side);
  if (fault.has_value() && !plan.state()->validate)
    return refuse(*place, *fault);
  return shown_moe(*place, {&x, 1}, {&out, 1}, options,
                   [&]() -> absl::StatusOr<Work> {
                     if (fault.has_value())
                       return moe::refuse_call(*place, *plan.state(), *fault);
                     return run_moe<moe::DispatchCall>(
                         options.async, plan.state(), *place, x, out, side);
                   });
} catch (...) {
  return base::error_of_exception("moe_dispatch");
}

absl::StatusOr<Work> moe_combine(const MoePlan& plan, TensorView y,
                                 TensorView out, const CombineOptions& combine,
                                 const OpOptions& options) try {
  absl::StatusOr<CallPlace> place = place_of("moe_combine", plan, options);
  if (!place.ok()) return place.status();
  const auto fault =
      moe::CombineCall::find_fault(*plan.state(), y, out, combine);
  if (fault.has_value() && !plan.state()->validate)
    return refuse(*place, *fault);
  return shown_moe(*place, {&y, 1}, {&out, 1}, options,
                   [&]() -> absl::StatusOr<Work> {
                     if (fault.has_value())
                       return moe::refuse_call(*place, *plan.state(), *fault);
                     return run_moe<moe::CombineCall>(
                         options.async, plan.state(), *place, y, out, combine);
                   });
} catch (...) {
  return base::error_of_exception("moe_combine");
}

absl::StatusOr<MoePending> moe_dispatch_start(
    const MoePlan& plan, TensorView x, TensorView out,
    absl::Span<const SideChannel> side, const OpOptions& options) try {
  absl::StatusOr<CallPlace> place =
      place_of("moe_dispatch_start", plan, options);
  if (!place.ok()) return place.status();
  if (options.async) return refuse_async(*place);
  const auto fault = moe::DispatchCall::find_fault(*plan.state(), x, out, side);
  if (fault.has_value() && !plan.state()->validate)
    return refuse(*place, *fault);
  return shown_moe(*place, {&x, 1}, {&out, 1}, options,
                   [&]() -> absl::StatusOr<MoePending> {
                     if (fault.has_value())
                       return moe::refuse_call(*place, *plan.state(), *fault);
                     return start(std::make_unique<moe::DispatchCall>(
                         plan.state(), *place, x, out, side));
                   });
} catch (...) {
  return base::error_of_exception("moe_dispatch_start");
}

absl::StatusOr<MoePending> moe_combine_start(const MoePlan& plan, TensorView y,
                                             TensorView out,
                                             const CombineOptions& combine,
                                             const OpOptions& options) try {
  absl::StatusOr<CallPlace> place =
      place_of("moe_combine_start", plan, options);
  if (!place.ok()) return place.status();
  if (options.async) return refuse_async(*place);
  const auto fault =
      moe::CombineCall::find_fault(*plan.state(), y, out, combine);
  if (fault.has_value() && !plan.state()->validate)
    return refuse(*place, *fault);
  return shown_moe(*place, {&y, 1}, {&out, 1}, options,
                   [&]() -> absl::StatusOr<MoePending> {
                     if (fault.has_value())
                       return moe::refuse_call(*place, *plan.state(), *fault);
                     return start(std::make_unique<moe::CombineCall>(
                         plan.state(), *place, y, out, combine));
                   });
} catch (...) {
  return base::error_of_exception("moe_combine_start");
}

}  // namespace distwrap
