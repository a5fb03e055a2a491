// Mixtures of experts: plans, and the calls that use them.
#include "arrays.h"
#include "call.h"
#include "moe_combine.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

namespace nb = nanobind;
using namespace nb::literals;

namespace distwrap_python {
namespace {

using H = nb::handle;
using Ranks = std::optional<std::vector<int32_t>>;

class MoePlan {
 public:
  MoePlan(distwrap_moe_plan taken, nb::handle group)
      : handle_(taken), group_(nb::borrow(group)) {}
  MoePlan(const MoePlan&) = delete;
  MoePlan& operator=(const MoePlan&) = delete;
  ~MoePlan() {
    const Unlocked released;
    distwrap_moe_plan_free(handle_);
  }

  distwrap_moe_plan handle() const { return handle_; }
  const nb::object& group() const { return group_; }
  distwrap_moe_plan give_up() { return std::exchange(handle_, nullptr); }
  distwrap_moe_plan_info read() const {
    distwrap_moe_plan_info info = {};
    info.struct_size = sizeof info;
    Error error;
    check(distwrap_moe_plan_read(handle_, &info, &error.handle), error);
    return info;
  }
  // An array over the plan's memory, which keeps the plan.
  nb::object tensor(int32_t which) const {
    distwrap_managed_tensor* managed = nullptr;
    Error error;
    check(distwrap_moe_plan_tensor(handle_, which, &managed, &error.handle),
          error);
    const distwrap_tensor& t = managed->dl_tensor;
    return array_of("moe_plan", t.data, t.dtype, t.shape, t.ndim,
                    [managed] { managed->deleter(managed); });
  }
  void check_calls() const {
    Error error;
    check(distwrap_moe_plan_check(handle_, &error.handle), error);
  }
  int64_t workspace_bytes(int64_t row_bytes) const {
    int64_t bytes = 0;
    Error error;
    check(
        distwrap_moe_plan_workspace(handle_, row_bytes, &bytes, &error.handle),
        error);
    return bytes;
  }
  void prepare(int64_t row_bytes, int32_t in_flight) const {
    Error error;
    check(
        distwrap_moe_plan_prepare(handle_, row_bytes, in_flight, &error.handle),
        error);
  }

 private:
  distwrap_moe_plan handle_;
  const nb::object group_;
};

nb::object make_plan(H routing, int64_t num_experts, const Ranks& to_rank,
                     const std::string& dedup, const std::string& layout,
                     int64_t alignment, bool zero_padding,
                     const std::string& bases, const std::string& overflow,
                     int64_t expert_capacity, int64_t row_capacity,
                     int64_t max_tokens, const Ranks& masked_ranks,
                     const Ranks& node_of, MoePlan* reuse, H group, H timeout,
                     H label) {
  constexpr const char* kCall = "moe_plan";
  distwrap_moe_options moe = {};
  moe.struct_size = sizeof moe;
  moe.dedup = choice(kCall, "dedup", dedup, {"auto", "none", "rank", "node"});
  moe.layout = choice(kCall, "layout", layout, {"rank_major", "expert_major"});
  moe.bases = choice(kCall, "bases", bases, {"packed", "fixed"});
  moe.overflow =
      choice(kCall, "overflow", overflow, {"exact", "drop", "error"});
  moe.keep_padding = zero_padding ? 0 : 1;
  moe.num_experts = num_experts;
  if (to_rank.has_value()) {
    if (static_cast<int64_t>(to_rank->size()) != num_experts)
      raise_value(kCall,
                  "expert_to_rank has " + std::to_string(to_rank->size()) +
                      " numbers for " + std::to_string(num_experts) +
                      " experts",
                  "give the rank of each expert");
    moe.expert_to_rank = to_rank->data();
  }
  moe.alignment = alignment;
  moe.expert_capacity = expert_capacity;
  moe.row_capacity = row_capacity;
  moe.max_tokens = max_tokens;
  if (masked_ranks.has_value()) {
    moe.masked_ranks = masked_ranks->data();
    moe.masked_ranks_count = masked_ranks->size();
  }
  if (node_of.has_value()) {
    moe.node_of = node_of->data();
    moe.node_of_count = node_of->size();
  }
  OperationCall call(kCall, group, false, timeout, label);
  const auto* const ids = call.tensor(routing, "routing", Use::kRead);
  distwrap_moe_plan made = nullptr;
  wait_in(call.options().group(), [&](distwrap_error* error) {
    return distwrap_moe_plan_create(
        ids, &moe, call.options().get(),
        reuse == nullptr ? nullptr : reuse->give_up(), &made, error);
  });
  return nb::cast(new MoePlan(made, group), nb::rv_policy::take_ownership);
}

// The lists of a call, read from pairs of tensors.
class Side {
 public:
  Side(OperationCall& call, H rows, H weights) {
    add(call, rows, 0);
    add(call, weights, 1);
  }
  const distwrap_moe_side* data() const { return all_.data(); }
  uint64_t size() const { return all_.size(); }

 private:
  void add(OperationCall& call, H pairs, int32_t is_weights) {
    for (H pair : nb::borrow<nb::iterable>(pairs))
      all_.push_back(
          {call.tensor(nb::borrow<nb::tuple>(pair)[0], "side", Use::kRead),
           call.tensor(nb::borrow<nb::tuple>(pair)[1], "side", Use::kWritten),
           is_weights, 0});
  }
  std::vector<distwrap_moe_side> all_;
};

// The options of these calls name no group, which the plan has.
template <class F>
nb::object run_on(OperationCall& call, const MoePlan& plan, const F& f) {
  if (recording != nullptr) return call.run(f);
  return call.run_on(group_of("wait", plan.group()), plan.group(), f);
}

nb::object dispatch(MoePlan& plan, H x, H out, H side, H weights, bool async_op,
                    H timeout, H label) {
  constexpr const char* kCall = "moe_dispatch";
  OperationCall call(kCall, nb::none(), async_op, timeout, label);
  const auto* const to = call.tensor(out, "out", Use::kWritten);
  const auto* const from = call.tensor(x, "x", Use::kRead);
  const Side beside(call, side, weights);
  return run_on(call, plan, [&](auto* o, auto* w, auto* e) {
    return distwrap_moe_dispatch(plan.handle(), to, from, beside.data(),
                                 beside.size(), o, w, e);
  });
}

nb::object combine(MoePlan& plan, H y, H out, const std::string& weighting,
                   H weights, H bias, const std::string& order,
                   bool reproducible, H returns, bool async_op, H timeout,
                   H label) {
  constexpr const char* kCall = "moe_combine";
  OperationCall call(kCall, nb::none(), async_op, timeout, label);
  const auto* const to = call.tensor(out, "out", Use::kWritten);
  const auto* const from = call.tensor(y, "y", Use::kRead);
  const MoeCombine how(kCall, call, weighting, weights, bias, order,
                       reproducible, returns);
  return run_on(call, plan, [&](auto* o, auto* w, auto* e) {
    return distwrap_moe_combine(plan.handle(), to, from, how.get(), o, w, e);
  });
}

// A call in two phases, with the tensors that it uses.
class MoePending {
 public:
  MoePending(distwrap_moe_pending taken, std::unique_ptr<OperationCall> call,
             nb::handle group)
      : handle_(taken), call_(std::move(call)), group_(nb::borrow(group)) {}
  MoePending(const MoePending&) = delete;
  MoePending& operator=(const MoePending&) = delete;
  ~MoePending() {
    const Unlocked released;
    distwrap_moe_pending_free(handle_);
  }
  void finish() {
    wait_in(groups_of(group_), [&](distwrap_error* error) {
      return distwrap_moe_pending_finish(handle_, error);
    });
  }

 private:
  distwrap_moe_pending handle_;
  std::unique_ptr<OperationCall> call_;
  const nb::object group_;
};

nb::object make_pending(distwrap_moe_pending taken,
                        std::unique_ptr<OperationCall> call,
                        const MoePlan& plan) {
  return nb::cast(new MoePending(taken, std::move(call), plan.group()),
                  nb::rv_policy::take_ownership);
}

nb::object dispatch_start(MoePlan& plan, H x, H out, H side, H weights,
                          H timeout, H label) {
  constexpr const char* kCall = "moe_dispatch_start";
  auto call =
      std::make_unique<OperationCall>(kCall, nb::none(), false, timeout, label);
  const auto* const to = call->tensor(out, "out", Use::kWritten);
  const auto* const from = call->tensor(x, "x", Use::kRead);
  const Side beside(*call, side, weights);
  distwrap_moe_pending made = nullptr;
  wait_in(groups_of(plan.group()), [&](distwrap_error* error) {
    return distwrap_moe_dispatch_start(plan.handle(), to, from, beside.data(),
                                       beside.size(), call->options().get(),
                                       &made, error);
  });
  return make_pending(made, std::move(call), plan);
}

nb::object combine_start(MoePlan& plan, H y, H out,
                         const std::string& weighting, H weights, H bias,
                         const std::string& order, bool reproducible, H returns,
                         H timeout, H label) {
  constexpr const char* kCall = "moe_combine_start";
  auto call =
      std::make_unique<OperationCall>(kCall, nb::none(), false, timeout, label);
  const auto* const to = call->tensor(out, "out", Use::kWritten);
  const auto* const from = call->tensor(y, "y", Use::kRead);
  const MoeCombine how(kCall, *call, weighting, weights, bias, order,
                       reproducible, returns);
  distwrap_moe_pending made = nullptr;
  wait_in(groups_of(plan.group()), [&](distwrap_error* error) {
    return distwrap_moe_combine_start(plan.handle(), to, from, how.get(),
                                      call->options().get(), &made, error);
  });
  return make_pending(made, std::move(call), plan);
}

// A number of the plan as a read-only attribute.
template <auto kField>
auto number() {
  return [](const MoePlan& plan) { return plan.read().*kField; };
}

}  // namespace

void add_moe(nb::module_& m) {
  using Info = distwrap_moe_plan_info;
  nb::class_<MoePlan>(m, "_MoePlan")
      .def_prop_ro("tokens", number<&Info::tokens>())
      .def_prop_ro("slots", number<&Info::slots>())
      .def_prop_ro("recv_rows", number<&Info::recv_rows>())
      .def_prop_ro("output_rows", number<&Info::output_rows>())
      .def_prop_ro("dedup", number<&Info::dedup>())
      .def("traffic",
           [](const MoePlan& plan) {
             const Info info = plan.read();
             nb::dict told;
             told["inter_rows"] = info.inter_rows;
             told["intra_rows"] = info.intra_rows;
             told["local_rows"] = info.local_rows;
             told["naive_inter_rows"] = info.naive_inter_rows;
             told["bytes_inter"] = info.bytes_inter;
             told["bytes_intra"] = info.bytes_intra;
             told["dropped"] = info.dropped;
             told["execs"] = info.execs;
             return told;
           })
      .def("tensor", &MoePlan::tensor, "which"_a)
      .def("check", &MoePlan::check_calls)
      .def("workspace_bytes", &MoePlan::workspace_bytes, "row_bytes"_a)
      .def("prepare", &MoePlan::prepare, "row_bytes"_a, "in_flight"_a);
  nb::class_<MoePending>(m, "_MoePending").def("finish", &MoePending::finish);
  m.def("_moe_plan", &make_plan, "routing"_a, "num_experts"_a,
        "expert_to_rank"_a.none(), "dedup"_a, "layout"_a, "alignment"_a,
        "zero_padding"_a, "bases"_a, "overflow"_a, "expert_capacity"_a,
        "row_capacity"_a, "max_tokens"_a, "masked_ranks"_a.none(),
        "node_of"_a.none(), "reuse"_a.none(), "group"_a.none(),
        "timeout"_a.none(), "label"_a.none());
  m.def("_moe_dispatch", &dispatch, "plan"_a, "x"_a, "out"_a, "side"_a,
        "weights"_a, "async_op"_a, "timeout"_a.none(), "label"_a.none());
  m.def("_moe_combine", &combine, "plan"_a, "y"_a, "out"_a, "weighting"_a,
        "weights"_a.none(), "bias"_a, "order"_a, "reproducible"_a, "returns"_a,
        "async_op"_a, "timeout"_a.none(), "label"_a.none());
  m.def("_moe_dispatch_start", &dispatch_start, "plan"_a, "x"_a, "out"_a,
        "side"_a, "weights"_a, "timeout"_a.none(), "label"_a.none());
  m.def("_moe_combine_start", &combine_start, "plan"_a, "y"_a, "out"_a,
        "weighting"_a, "weights"_a.none(), "bias"_a, "order"_a,
        "reproducible"_a, "returns"_a, "timeout"_a.none(), "label"_a.none());
}

}  // namespace distwrap_python
