// The raw form of mixture-of-experts exchange: calls by index maps.
#include "distwrap/moe_raw.h"

#include "base/error.h"
#include "base/exceptions.h"
#include "facade/moe_place.h"
#include "moe/combine_call.h"
#include "moe/dedup.h"
#include "moe/dispatch_call.h"

#include <absl/strings/str_cat.h>

#include <cstring>
#include <optional>
#include <utility>

namespace distwrap {
namespace {

using moe::CallPlace;

absl::StatusOr<CallPlace> place_of(const char* name,
                                   const DedupRequest& request,
                                   const OpOptions& options) {
  if (!request)
    return base::make_error(
        {.reason = Reason::kPlanMismatch,
         .what = "there is no request",
         .op = name,
         .next_step = "make one with alltoallv_dedup_init"});
  return facade::moe_place(name, request.state()->group, options,
                           facade::StreamFault::kTold);
}

// Rows of the request's tokens: any contiguous view of whole tokens.
TensorView token_rows(const char* name, const TensorView& view,
                      const moe::DedupState& request, DType dtype,
                      int64_t (&shape)[2], moe::Fault* fault) {
  if (!view.possible() || !view.contiguous() || view.dtype() != dtype ||
      view.count() % request.width != 0) {
    fault->set(
        {.reason = Reason::kInvalidArgument,
         .what = absl::StrCat(name, " is not made of the request's tokens"),
         .expected =
             absl::StrCat(dtype_name(dtype), " rows of ", request.width),
         .actual = view.text(),
         .next_step = "give contiguous rows of the request's type and size"});
    return {};
  }
  shape[0] = view.count() / request.width;
  shape[1] = request.width;
  TensorView rows(view.data(), shape, view.dtype(), view.device());
  return view.read_only() ? rows.as_read_only() : rows;
}

// A request has no plan of the caller's: other sizes are a bad argument.
std::optional<ErrorInfo> of_sizes(std::optional<ErrorInfo> fault) {
  if (fault.has_value() && fault->reason == Reason::kPlanMismatch)
    fault->reason = Reason::kInvalidArgument;
  return fault;
}

}  // namespace

absl::StatusOr<DedupRequest> alltoallv_dedup_init(
    int64_t num_tokens, int64_t token_size, int topk_k, int experts_per_rank,
    DType dtype, int ranks_per_node, const OpOptions& options) try {
  const char* const name = "alltoallv_dedup_init";
  std::shared_ptr<group::GroupState> group =
      facade::kept_group_of(options.group);
  if (group == nullptr) return facade::not_initialized(name);
  absl::StatusOr<CallPlace> place =
      facade::moe_place(name, std::move(group), options);
  if (!place.ok()) return place.status();
  return facade::shown_moe(
      *place, {}, {}, options, [&]() -> absl::StatusOr<DedupRequest> {
        absl::StatusOr<std::shared_ptr<moe::DedupState>> state =
            moe::begin_dedup(*place, {.tokens = num_tokens,
                                      .width = token_size,
                                      .slots = topk_k,
                                      .experts = experts_per_rank,
                                      .dtype = dtype,
                                      .ranks_per_node = ranks_per_node});
        if (!state.ok()) return state.status();
        return DedupRequest(*std::move(state));
      });
} catch (...) {
  return base::error_of_exception("alltoallv_dedup_init");
}

absl::StatusOr<Work> alltoallv_dedup_exec(
    TensorView output, TensorView recv_block_ids, TensorView input,
    TensorView send_indices, TensorView forward_indices,
    TensorView recv_indices, const DedupRequest& request,
    const OpOptions& options) try {
  absl::StatusOr<CallPlace> place =
      place_of("alltoallv_dedup_exec", request, options);
  if (!place.ok()) return place.status();
  moe::DedupState& state = *request.state();
  moe::Fault fault;
  if (options.stream.native != nullptr) fault.set(facade::no_stream());
  int64_t out_shape[2] = {}, in_shape[2] = {};
  const TensorView out =
      token_rows("output", output, state, state.dtype, out_shape, &fault);
  const TensorView in =
      token_rows("input", input, state, state.dtype, in_shape, &fault);
  if (!fault.found()) {
    moe::ViewCheck check;
    check.view("input", in, state.shape.tokens, true, false);
    check.view("output", out, 0, false, true);
    check.view("recv_block_ids", recv_block_ids, 0, false, true);
    check.apart("input", in, "output", out);
    check.require(recv_block_ids.dtype() == DType::kI32, Reason::kMetadataType,
                  "recv_block_ids has the wrong type", "i32",
                  recv_block_ids.text(), "give i32");
    if (auto found = of_sizes(check.fault())) fault.set(*std::move(found));
  }
  return facade::shown_moe(
      *place, {&input, 1}, {&output, 1}, options,
      [&]() -> absl::StatusOr<Work> {
        absl::StatusOr<std::shared_ptr<moe::PlanState>> plan =
            moe::plan_of_maps(*place, state,
                              {send_indices, forward_indices, recv_indices,
                               std::min(out.rows(), recv_block_ids.count())},
                              std::move(fault),
                              [](moe::PlanState&) { return std::nullopt; });
        if (!plan.ok()) return plan.status();
        const moe::Layout& layout = (*plan)->parts.layout;
        if (layout.rows > 0)
          memcpy(recv_block_ids.data(), layout.src_token.data(),
                 static_cast<size_t>(layout.rows) * sizeof(int32_t));
        return facade::run_moe<moe::DispatchCall>(
            options.async, *plan, *place, in, out,
            absl::Span<const SideChannel>());
      });
} catch (...) {
  return base::error_of_exception("alltoallv_dedup_exec");
}

absl::StatusOr<Work> alltoallv_dedup_combine(
    TensorView output, TensorView input, TensorView send_indices,
    TensorView forward_indices, TensorView recv_indices,
    const DedupRequest& request, const CombineOptions& combine,
    const OpOptions& options) try {
  absl::StatusOr<CallPlace> place =
      place_of("alltoallv_dedup_combine", request, options);
  if (!place.ok()) return place.status();
  moe::DedupState& state = *request.state();
  moe::Fault fault;
  if (options.stream.native != nullptr) fault.set(facade::no_stream());
  if (combine.order != MoeOrder::kTree || !combine.returns.empty() ||
      combine.weighting == MoeWeighting::kAtSource)
    fault.set({.reason = Reason::kInvalidArgument,
               .what = "maps tell no slots, which kTopK, kAtSource and returns "
                       "need",
               .next_step = "use moe_plan and moe_combine"});
  int64_t out_shape[2] = {}, in_shape[2] = {};
  const TensorView in =
      token_rows("input", input, state, state.dtype, in_shape, &fault);
  const TensorView out =
      token_rows("output", output, state, output.dtype(), out_shape, &fault);
  return facade::shown_moe(
      *place, {&input, 1}, {&output, 1}, options,
      [&]() -> absl::StatusOr<Work> {
        absl::StatusOr<std::shared_ptr<moe::PlanState>> plan =
            moe::plan_of_maps(
                *place, state,
                {send_indices, forward_indices, recv_indices, in.rows()},
                std::move(fault), [&](moe::PlanState& made) {
                  return of_sizes(
                      moe::CombineCall::find_fault(made, in, out, combine));
                });
        if (!plan.ok()) return plan.status();
        return facade::run_moe<moe::CombineCall>(options.async, *plan, *place,
                                                 in, out, combine);
      });
} catch (...) {
  return base::error_of_exception("alltoallv_dedup_combine");
}

absl::StatusOr<DedupMaps> dedup_maps(TensorView topk_all, int experts_per_rank,
                                     int ranks_per_node, int rank) {
  return base::guarded("dedup_maps", [&]() -> absl::StatusOr<DedupMaps> {
    const bool wide = topk_all.dtype() == DType::kI64;
    if ((!wide && topk_all.dtype() != DType::kI32) || !topk_all.possible() ||
        !topk_all.contiguous() || topk_all.dims() != 3)
      return base::make_error({.reason = Reason::kMetadataType,
                               .what = "the ids have the wrong type or shape",
                               .op = "dedup_maps",
                               .expected = "contiguous (R,T,K) of i32 or i64",
                               .actual = topk_all.text(),
                               .next_step = "convert the ids"});
    const int64_t ranks = topk_all.extent(0);
    if (experts_per_rank < 1 || ranks_per_node < 1 ||
        ranks % ranks_per_node != 0 || rank < 0 || rank >= ranks)
      return base::make_error(
          {.reason = Reason::kInvalidArgument,
           .what = "ranks are not divided into equal nodes, or rank is none",
           .op = "dedup_maps",
           .expected = absl::StrCat("a divisor of ", ranks),
           .actual = absl::StrCat(ranks_per_node, ", rank ", rank),
           .next_step = "give the ranks of a node, and one of the ranks"});
    const moe::MapShape shape{static_cast<int>(ranks) / ranks_per_node,
                              ranks_per_node, topk_all.extent(1),
                              experts_per_rank};
    DedupMaps maps;
    const auto make = [&](const auto* ids) {
      moe::make_maps(ids, topk_all.extent(2), shape, rank, &maps.send,
                     &maps.forward, &maps.recv);
    };
    if (wide)
      make(static_cast<const int64_t*>(topk_all.data()));
    else
      make(static_cast<const int32_t*>(topk_all.data()));
    return maps;
  });
}

}  // namespace distwrap
