// Mixtures of experts, for C.
#include "distwrap/moe.h"

#include "capi/arguments.h"
#include "capi/entry.h"
#include "capi/moe_combine.h"
#include "distwrap/c.h"
#include "distwrap/dlpack.h"

#include <absl/strings/str_cat.h>

#include <optional>
#include <utility>
#include <vector>

namespace distwrap::capi {
namespace {

// The C constants have the values of the C++ enumerators.
static_assert(static_cast<int>(MoeDedup::kNode) == DW_MOE_NODE &&
              static_cast<int>(MoeLayout::kExpertMajor) ==
                  DW_MOE_EXPERT_MAJOR &&
              static_cast<int>(MoeBases::kFixed) == DW_MOE_FIXED &&
              static_cast<int>(MoeOverflow::kCapacityError) ==
                  DW_MOE_CAPACITY_ERROR &&
              static_cast<int>(MoeWeighting::kAtSource) == DW_MOE_AT_SOURCE &&
              static_cast<int>(MoeOrder::kTopK) == DW_MOE_TOP_K);

// An enumerator from its number; the error names the field.
template <class Enum>
absl::Status read_choice(const char* call, const char* field, int32_t number,
                         Enum last, Enum* choice) {
  if (number < 0 || number > static_cast<int32_t>(last))
    return refuse(call, absl::StrCat(field, " = ", number, " is unknown"),
                  "use the DW_MOE_* constants of c_types.h");
  *choice = static_cast<Enum>(number);
  return absl::OkStatus();
}

template <class T>
absl::StatusOr<absl::Span<const T>> list_of(const char* call, const char* name,
                                            const T* data, uint64_t count) {
  if (data == nullptr && count != 0) return refuse_null(call, name);
  return absl::MakeConstSpan(data, count);
}

absl::StatusOr<MoeOptions> read_moe(const char* call,
                                    const distwrap_moe_options* from) {
  distwrap_moe_options given;
  absl::Status status = read_options(call, from, &given);
  if (!status.ok()) return status;
  MoeOptions moe;
  status.Update(
      read_choice(call, "dedup", given.dedup, MoeDedup::kNode, &moe.dedup));
  status.Update(read_choice(call, "layout", given.layout,
                            MoeLayout::kExpertMajor, &moe.layout));
  status.Update(
      read_choice(call, "bases", given.bases, MoeBases::kFixed, &moe.bases));
  status.Update(read_choice(call, "overflow", given.overflow,
                            MoeOverflow::kCapacityError, &moe.overflow));
  if (!status.ok()) return status;
  const auto masked = list_of(call, "masked_ranks", given.masked_ranks,
                              given.masked_ranks_count);
  if (!masked.ok()) return masked.status();
  const auto nodes =
      list_of(call, "node_of", given.node_of, given.node_of_count);
  if (!nodes.ok()) return nodes.status();
  moe.num_experts = given.num_experts;
  if (given.expert_to_rank != nullptr && given.num_experts > 0)
    moe.expert_to_rank = absl::MakeConstSpan(
        given.expert_to_rank, static_cast<size_t>(given.num_experts));
  if (given.alignment != 0) moe.alignment = given.alignment;
  moe.zero_padding = given.keep_padding == 0;
  moe.validate = given.validate != 0;
  moe.expert_capacity = given.expert_capacity;
  moe.row_capacity = given.row_capacity;
  moe.max_tokens = given.max_tokens;
  moe.masked_ranks = *masked;
  moe.node_of = *nodes;
  return moe;
}

// The rows beside a dispatch.
absl::StatusOr<std::vector<SideChannel>> read_side(const char* call,
                                                   Arguments& arguments,
                                                   const distwrap_moe_side* all,
                                                   uint64_t count) {
  const auto given = list_of(call, "side", all, count);
  if (!given.ok()) return given.status();
  std::vector<SideChannel> side;
  for (const distwrap_moe_side& one : *given) {
    const TensorView in = arguments.of(Tensor{one.in, "side.in"});
    const TensorView out = arguments.of(Tensor{one.out, "side.out"});
    side.push_back(one.is_weights != 0 ? SideChannel::weights(in, out)
                                       : SideChannel(in, out));
  }
  return side;
}

}  // namespace

absl::Status read_combine(const char* call, Arguments& arguments,
                          const distwrap_moe_combine_options* from,
                          Combine* combine) {
  distwrap_moe_combine_options given;
  absl::Status status = read_options(call, from, &given);
  if (!status.ok()) return status;
  CombineOptions& options = combine->options;
  status.Update(read_choice(call, "weighting", given.weighting,
                            MoeWeighting::kAtSource, &options.weighting));
  status.Update(
      read_choice(call, "order", given.order, MoeOrder::kTopK, &options.order));
  if (!status.ok()) return status;
  options.reproducible = given.reproducible != 0;
  options.weights = arguments.of(MaybeTensor{given.weights});
  combine->bias =
      arguments.of(TensorList{given.bias, given.bias_count, "bias"});
  options.bias = combine->bias;
  const auto returns =
      list_of(call, "returns", given.returns, given.returns_count);
  if (!returns.ok()) return returns.status();
  for (const distwrap_moe_return& one : *returns)
    combine->returns.push_back({arguments.of(Tensor{one.in, "returns.in"}),
                                arguments.of(Tensor{one.out, "returns.out"})});
  options.returns = combine->returns;
  return absl::OkStatus();
}

namespace {

// Runs `f(plan, out, in)` with the checked arguments that all calls have.
template <class F>
absl::Status with_plan(const char* call, distwrap_moe_plan plan,
                       Arguments& arguments, const distwrap_tensor* out,
                       const Tensor& in, const distwrap_op_options* options,
                       bool async, const F& f) {
  const auto found = held(call, plan);
  if (!found.ok()) return found.status();
  arguments.read(options, async);
  arguments.refuse_batch();
  const TensorView written = arguments.of(Tensor{out, "out"});
  const TensorView read = arguments.of(in);
  return f(**found, written, read);
}

template <class Start>
absl::Status hand_out_pending(const char* call, distwrap_moe_pending* pending,
                              const Start& start) {
  using Box = std::unique_ptr<PendingBox>;
  return hand_out_started(call, pending, [&]() -> absl::StatusOr<Box> {
    auto box = std::make_unique<PendingBox>();
    absl::StatusOr<MoePending> begun = start();
    if (!begun.ok()) return begun.status();
    const base::MutexLock lock(box->mutex);
    box->pending = *std::move(begun);
    return box;
  });
}

absl::StatusOr<TensorView> tensor_of(const char* call, const MoePlan& plan,
                                     int32_t which) {
  switch (which) {
    case DW_MOE_COUNTS_PER_RANK:
      return plan.counts_per_rank();
    case DW_MOE_COUNTS_PER_NODE:
      return plan.counts_per_node();
    case DW_MOE_COUNTS_PER_EXPERT:
      return plan.counts_per_expert();
    case DW_MOE_TOKEN_IN_RANK:
      return plan.token_in_rank();
    case DW_MOE_KEPT:
      return plan.kept();
    case DW_MOE_EXPERT_OFFSETS:
      return plan.expert_offsets();
    case DW_MOE_EXPERT_COUNTS:
      return plan.expert_counts();
    case DW_MOE_SRC_RANK:
      return plan.src_rank();
    case DW_MOE_SRC_TOKEN:
      return plan.src_token();
    case DW_MOE_RECV_TOPK_IDX:
      return plan.recv_topk_idx();
    case DW_MOE_DROPPED_PER_EXPERT:
      return plan.dropped_per_expert();
    case DW_MOE_SERVING_SLOTS:
      return plan.serving_slots();
    case DW_MOE_RECV_ROWS:
      return plan.recv_rows_tensor();
    default:
      return refuse(call, absl::StrCat("a plan has no tensor ", which),
                    "use a constant such as DW_MOE_COUNTS_PER_RANK");
  }
}

}  // namespace
}  // namespace distwrap::capi

using namespace distwrap::capi;  // NOLINT(google-build-using-namespace)
using distwrap::MoePlan;
using distwrap::TensorView;

int32_t distwrap_moe_plan_create(const distwrap_tensor* routing,
                                 const distwrap_moe_options* moe,
                                 const distwrap_op_options* options,
                                 distwrap_moe_plan reuse,
                                 distwrap_moe_plan* plan,
                                 distwrap_error* error) {
  constexpr const char* kCall = "moe_plan";
  return entry(kCall, error, [&]() -> absl::Status {
    if (plan == nullptr) return refuse_null(kCall, "plan");
    *plan = nullptr;
    MoePlan taken;
    if (reuse != nullptr) {
      const auto found = held(kCall, reuse);
      if (!found.ok()) return found.status();
      taken = **found;
    }
    if (free_handle(reuse) != DW_OK)
      return refuse_handle(kCall, number_of(reuse),
                           BoxOf<distwrap_moe_plan>::kKind);
    const auto read = read_moe(kCall, moe);
    if (!read.ok()) return read.status();
    Arguments arguments(kCall);
    arguments.read(options, false);
    arguments.refuse_batch();
    const TensorView of = arguments.of(Tensor{routing, "routing"});
    if (!arguments.status().ok()) return arguments.status();
    return hand_out_started(kCall, plan, [&] {
      return distwrap::moe_plan(of, *read, arguments.options(),
                                std::move(taken));
    });
  });
}

int32_t distwrap_moe_plan_free(distwrap_moe_plan plan) {
  return free_handle(plan);
}

int32_t distwrap_moe_plan_read(distwrap_moe_plan plan,
                               distwrap_moe_plan_info* info,
                               distwrap_error* error) {
  constexpr const char* kCall = "moe_plan_read";
  return entry(kCall, error, [&]() -> absl::Status {
    const auto found = held(kCall, plan);
    if (!found.ok()) return found.status();
    const MoePlan& of = **found;
    const distwrap::MoeTraffic traffic = of.traffic();
    distwrap_moe_plan_info out = {};
    out.dedup = static_cast<int32_t>(of.dedup());
    out.tokens = of.tokens();
    out.slots = of.slots();
    out.recv_rows = of.recv_rows();
    out.output_rows = of.output_rows();
    out.inter_rows = traffic.inter_rows;
    out.intra_rows = traffic.intra_rows;
    out.local_rows = traffic.local_rows;
    out.naive_inter_rows = traffic.naive_inter_rows;
    out.bytes_inter = traffic.bytes_inter;
    out.bytes_intra = traffic.bytes_intra;
    out.dropped = traffic.dropped;
    out.execs = traffic.execs;
    return write_info(kCall, out, info);
  });
}

int32_t distwrap_moe_plan_tensor(distwrap_moe_plan plan, int32_t which,
                                 distwrap_managed_tensor** managed,
                                 distwrap_error* error) {
  constexpr const char* kCall = "moe_plan_tensor";
  return entry(kCall, error, [&]() -> absl::Status {
    if (managed == nullptr) return refuse_null(kCall, "managed");
    *managed = nullptr;
    const auto found = held(kCall, plan);
    if (!found.ok()) return found.status();
    std::shared_ptr<void> owner = (**found).state();
    absl::StatusOr<TensorView> view;
    if (which == DW_MOE_WAIT_NS) {
      const auto waits =
          std::make_shared<std::vector<int64_t>>((**found).traffic().wait_ns);
      view = TensorView(*waits).as_read_only();
      owner = waits;
    } else {
      view = tensor_of(kCall, **found, which);
    }
    if (!view.ok()) return view.status();
    const auto made = distwrap::export_dlpack<distwrap_managed_tensor>(
        *view, std::move(owner));
    if (!made.ok()) return made.status();
    *managed = *made;
    return absl::OkStatus();
  });
}

int32_t distwrap_moe_plan_check(distwrap_moe_plan plan, distwrap_error* error) {
  constexpr const char* kCall = "moe_plan_check";
  return entry(kCall, error, [&]() -> absl::Status {
    const auto found = held(kCall, plan);
    if (!found.ok()) return found.status();
    return (**found).check();
  });
}

int32_t distwrap_moe_plan_workspace(distwrap_moe_plan plan, int64_t row_bytes,
                                    int64_t* bytes, distwrap_error* error) {
  constexpr const char* kCall = "moe_plan_workspace";
  return entry(kCall, error, [&]() -> absl::Status {
    if (bytes == nullptr) return refuse_null(kCall, "bytes");
    const auto found = held(kCall, plan);
    if (!found.ok()) return found.status();
    *bytes = (**found).workspace_bytes(row_bytes);
    return absl::OkStatus();
  });
}

int32_t distwrap_moe_plan_prepare(distwrap_moe_plan plan, int64_t row_bytes,
                                  int32_t in_flight, distwrap_error* error) {
  constexpr const char* kCall = "moe_plan_prepare";
  return entry(kCall, error, [&]() -> absl::Status {
    const auto found = held(kCall, plan);
    if (!found.ok()) return found.status();
    return in_flight == 0 ? (**found).prepare(row_bytes)
                          : (**found).prepare(row_bytes, in_flight);
  });
}

int32_t distwrap_moe_dispatch(distwrap_moe_plan plan,
                              const distwrap_tensor* out,
                              const distwrap_tensor* x,
                              const distwrap_moe_side* side,
                              uint64_t side_count,
                              const distwrap_op_options* options,
                              distwrap_work* work, distwrap_error* error) {
  constexpr const char* kCall = "moe_dispatch";
  if (work != nullptr) *work = nullptr;
  return entry(kCall, error, [&] {
    Arguments arguments(kCall);
    return with_plan(
        kCall, plan, arguments, out, Tensor{x, "x"}, options, work != nullptr,
        [&](const MoePlan& of, const TensorView& to,
            const TensorView& from) -> absl::Status {
          const auto beside = read_side(kCall, arguments, side, side_count);
          if (!beside.ok()) return beside.status();
          if (!arguments.status().ok()) return arguments.status();
          return hand_out_work(kCall, work, [&] {
            return distwrap::moe_dispatch(of, from, to, *beside,
                                          arguments.options());
          });
        });
  });
}

int32_t distwrap_moe_combine(distwrap_moe_plan plan, const distwrap_tensor* out,
                             const distwrap_tensor* y,
                             const distwrap_moe_combine_options* combine,
                             const distwrap_op_options* options,
                             distwrap_work* work, distwrap_error* error) {
  constexpr const char* kCall = "moe_combine";
  if (work != nullptr) *work = nullptr;
  return entry(kCall, error, [&] {
    Arguments arguments(kCall);
    return with_plan(
        kCall, plan, arguments, out, Tensor{y, "y"}, options, work != nullptr,
        [&](const MoePlan& of, const TensorView& to,
            const TensorView& from) -> absl::Status {
          Combine how;
          absl::Status read = read_combine(kCall, arguments, combine, &how);
          if (!read.ok()) return read;
          if (!arguments.status().ok()) return arguments.status();
          return hand_out_work(kCall, work, [&] {
            return distwrap::moe_combine(of, from, to, how.options,
                                         arguments.options());
          });
        });
  });
}

int32_t distwrap_moe_dispatch_start(
    distwrap_moe_plan plan, const distwrap_tensor* out,
    const distwrap_tensor* x, const distwrap_moe_side* side,
    uint64_t side_count, const distwrap_op_options* options,
    distwrap_moe_pending* pending, distwrap_error* error) {
  constexpr const char* kCall = "moe_dispatch_start";
  return entry(kCall, error, [&]() -> absl::Status {
    if (pending == nullptr) return refuse_null(kCall, "pending");
    *pending = nullptr;
    Arguments arguments(kCall);
    return with_plan(
        kCall, plan, arguments, out, Tensor{x, "x"}, options, false,
        [&](const MoePlan& of, const TensorView& to,
            const TensorView& from) -> absl::Status {
          const auto beside = read_side(kCall, arguments, side, side_count);
          if (!beside.ok()) return beside.status();
          if (!arguments.status().ok()) return arguments.status();
          return hand_out_pending(kCall, pending, [&] {
            return distwrap::moe_dispatch_start(of, from, to, *beside,
                                                arguments.options());
          });
        });
  });
}

int32_t distwrap_moe_combine_start(distwrap_moe_plan plan,
                                   const distwrap_tensor* out,
                                   const distwrap_tensor* y,
                                   const distwrap_moe_combine_options* combine,
                                   const distwrap_op_options* options,
                                   distwrap_moe_pending* pending,
                                   distwrap_error* error) {
  constexpr const char* kCall = "moe_combine_start";
  return entry(kCall, error, [&]() -> absl::Status {
    if (pending == nullptr) return refuse_null(kCall, "pending");
    *pending = nullptr;
    Arguments arguments(kCall);
    return with_plan(
        kCall, plan, arguments, out, Tensor{y, "y"}, options, false,
        [&](const MoePlan& of, const TensorView& to,
            const TensorView& from) -> absl::Status {
          Combine how;
          absl::Status read = read_combine(kCall, arguments, combine, &how);
          if (!read.ok()) return read;
          if (!arguments.status().ok()) return arguments.status();
          return hand_out_pending(kCall, pending, [&] {
            return distwrap::moe_combine_start(of, from, to, how.options,
                                               arguments.options());
          });
        });
  });
}

int32_t distwrap_moe_pending_finish(distwrap_moe_pending pending,
                                    distwrap_error* error) {
  constexpr const char* kCall = "moe_pending_finish";
  return entry(kCall, error, [&]() -> absl::Status {
    const auto found = held(kCall, pending);
    if (!found.ok()) return found.status();
    const distwrap::base::MutexLock lock((**found)->mutex);
    return (**found)->pending.finish().status();
  });
}

int32_t distwrap_moe_pending_free(distwrap_moe_pending pending) {
  return free_handle(pending);
}
