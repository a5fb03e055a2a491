// Mixture-of-experts exchange: tokens go to the ranks of their experts and come
// back, over any backend of host memory.
//
// Threads and ownership: as in operations.h; a plan is kept by the calls that
// use it.
//
//   auto plan = distwrap::moe_plan(topk, {.num_experts = 8});
//   std::vector<float> rows(plan->recv_rows() * H);
//   distwrap::moe_dispatch(*plan, x, rows_view);
//   ... run the experts ...
//   distwrap::moe_combine(*plan, rows_view, out);
//
// The backward of a dispatch is a combine of the gradients without weights,
// that of a combine is a dispatch (docs/moe.md). All calls are collectives of
// the plan's group, made in the same order on all ranks. They fail like other
// operations, and with the reasons that each comment names.
#ifndef DISTWRAP_MOE_H_
#define DISTWRAP_MOE_H_

#include "distwrap/export.h"
#include "distwrap/moe_plan.h"
#include "distwrap/op_options.h"

namespace distwrap {

// Makes a plan from the experts of each token. `routing`: ids (T,K), i32 or
// i64, -1 for an unused slot; or a map (T,X) of bool, whose slots are the
// experts. An expert that a token names twice counts once. T may differ between
// ranks and may be 0; K, X and the options are equal. Reads no payload.
// `reuse`: a plan whose memory the new plan takes over, if no other handle or
// call uses it. Waits; `async` is refused. kRoutingRange on all ranks for an id
// that is no expert, kCallMismatch, and kCapacity with
// MoeOverflow::kCapacityError.
DISTWRAP_EXPORT absl::StatusOr<MoePlan> moe_plan(
    TensorView routing, const MoeOptions& moe,
    const OpOptions& options = kDefaultOptions, MoePlan reuse = {});

// Sends the rows of `x` (T,..) to the ranks of their experts, where they fill
// `out` (M,..) in the plan's layout. The rows have equal shapes and types on
// all ranks and are copied bit by bit. Rows of `out` behind M keep their
// contents. kPlanMismatch for a plan of another group or another T. Not in
// place. = -; -;
// all_to_all_single of permuted rows
DISTWRAP_EXPORT absl::StatusOr<Work> moe_dispatch(
    const MoePlan& plan, TensorView x, TensorView out,
    absl::Span<const SideChannel> side = {},
    const OpOptions& options = kDefaultOptions);

// Brings the rows `y` (M,H) back and adds those of each token into `out` (T,H),
// in an order that does not depend on timing. `y` is f16, bf16, f32, f64, i32
// or i64, and `out` has the same type or f32. Sums of floats are f32 (f64 for
// f64) and are rounded once; integers wrap. Rows of padding are not read. A
// token without a row gets its bias, or 0. kPlanMismatch, also for another T
// and for fewer rows than M. Not in place.
DISTWRAP_EXPORT absl::StatusOr<Work> moe_combine(
    const MoePlan& plan, TensorView y, TensorView out,
    const CombineOptions& combine = {},
    const OpOptions& options = kDefaultOptions);

// These are the two calls in two phases: the first sends, `finish` receives and
// writes the outputs. kResourceExhausted codes of kResourceLimit beyond the
// plan's calls in flight (MoePlan::prepare; 2). `async` is refused.
DISTWRAP_EXPORT absl::StatusOr<MoePending> moe_dispatch_start(
    const MoePlan& plan, TensorView x, TensorView out,
    absl::Span<const SideChannel> side = {},
    const OpOptions& options = kDefaultOptions);
DISTWRAP_EXPORT absl::StatusOr<MoePending> moe_combine_start(
    const MoePlan& plan, TensorView y, TensorView out,
    const CombineOptions& combine = {},
    const OpOptions& options = kDefaultOptions);

}  // namespace distwrap

#endif  // DISTWRAP_MOE_H_
