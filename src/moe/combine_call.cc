#include "moe/combine_call.h"

#include "comm/op_build.h"
#include "moe/dispatch_call.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace distwrap::moe {
namespace {

size_t at(int64_t i) { return static_cast<size_t>(i); }

// Weights at the source and sums by slot need every row by itself.
MoeDedup level_of(const PlanState& plan, const CombineOptions& options) {
  const bool by_slot = options.order == MoeOrder::kTopK;
  if (!plan.expert_major())
    return by_slot || plan.parts.level == MoeDedup::kNone ? MoeDedup::kRank
                                                          : plan.parts.level;
  return by_slot || options.weighting == MoeWeighting::kAtSource
             ? MoeDedup::kNone
             : plan.parts.level;
}

dw_dtype abi_dtype(DType dtype) {
  return comm::op_build::kAbiDTypes[static_cast<size_t>(dtype)];
}

bool sums_in_f32(DType dtype) {
  return dtype == DType::kF16 || dtype == DType::kBF16 || dtype == DType::kF32;
}

bool adds_up(DType dtype) {
  return sums_in_f32(dtype) || dtype == DType::kF64 || dtype == DType::kI32 ||
         dtype == DType::kI64;
}

}  // namespace

std::optional<ErrorInfo> CombineCall::find_fault(
    PlanState& plan, const TensorView& y, const TensorView& out,
    const CombineOptions& options) {
  ViewCheck check;
  check.view("y", y, plan.output_rows(), false, false);
  check.view("out", out, plan.tokens(), true, true);
  check.same_row("y", y, "out", out);
  check.apart("y", y, "out", out);
  if (check.fault().has_value()) return check.fault();
  check.require(adds_up(y.dtype()), Reason::kInvalidArgument,
                "rows of this type cannot be added up",
                "f16, bf16, f32, f64, i32 or i64", dtype_name(y.dtype()),
                "convert the rows");
  check.require(out.dtype() == y.dtype() || out.dtype() == DType::kF32,
                Reason::kInvalidArgument,
                "the output has neither the type of y nor f32",
                absl::StrCat(dtype_name(y.dtype()), " or f32"),
                dtype_name(out.dtype()), "change the type of the output");
  check.require(options.bias.size() <= 2, Reason::kInvalidArgument,
                "there are more than two biases", "0, 1 or 2",
                absl::StrCat(options.bias.size()), "add the biases up");
  for (const TensorView& bias : options.bias) {
    check.view("bias", bias, plan.tokens(), true, false);
    check.same_type("out", out, "bias", bias);
    check.same_row("out", out, "bias", bias);
    check.apart("out", out, "bias", bias);
  }
  if (options.weighting != MoeWeighting::kNone) {
    const bool at_source = options.weighting == MoeWeighting::kAtSource;
    check.require(plan.expert_major(), Reason::kInvalidArgument,
                  "rank-major rows are sums already and take no weights",
                  "MoeLayout::kExpertMajor", "MoeLayout::kRankMajor",
                  "weight the rows of the experts before they are added");
    check.require(sums_in_f32(y.dtype()) || y.dtype() == DType::kF64,
                  Reason::kInvalidArgument, "integers take no weights",
                  "a type of floats", dtype_name(y.dtype()),
                  "convert the rows");
    check.view("weights", options.weights,
               at_source ? plan.tokens() : plan.output_rows(), at_source,
               false);
    check.elements("weights", options.weights, at_source ? plan.slots() : 1);
    check.require(options.weights.dtype() == DType::kF32,
                  Reason::kInvalidArgument, "the weights have another type",
                  "f32", dtype_name(options.weights.dtype()),
                  "convert the weights");
    check.apart("out", out, "weights", options.weights);
  }
  for (size_t i = 0; i < options.returns.size(); ++i) {
    const CombineOptions::Return& one = options.returns[i];
    const std::string in = absl::StrCat("returns[", i, "].in");
    const std::string to = absl::StrCat("returns[", i, "].out");
    check.view(in, one.in, plan.output_rows(), false, false);
    check.view(to, one.out, plan.tokens(), true, true);
    check.same_type(in, one.in, to, one.out);
    check.elements(in, one.in, plan.expert_major() ? 1 : plan.slots());
    check.elements(to, one.out, plan.slots());
    check.apart(in, one.in, to, one.out);
    check.apart("out", out, to, one.out);
  }
  return check.fault();
}

CombineCall::CombineCall(std::shared_ptr<PlanState> plan, CallPlace place,
                         const TensorView& y, const TensorView& out,
                         const CombineOptions& options)
    : MoeCall(std::move(plan), std::move(place)),
      level_(level_of(*plan_, options)),
      moves_(plan_->moves(level_)),
      y_(rows_of(y)),
      type_(y.dtype()),
      out_type_(out.dtype()),
      out_(rows_of(out)),
      width_(row_elements(y)),
      weighting_(options.weighting),
      by_slot_(options.order == MoeOrder::kTopK),
      weights_(static_cast<const float*>(options.weights.data())),
      wire_(options.reproducible && sums_in_f32(type_) && !moves_.by_pair &&
                    !by_slot_
                ? DType::kF32
                : type_),
      stride_(wire_row()) {
  two_hops_ = moves_.two_hops;
  // A row that travels by itself takes its weight along: a product is not
  // rounded to the rows' type.
  if (moves_.by_pair && weighting_ == MoeWeighting::kAtExpert) stride_ += 4;
  for (const TensorView& bias : options.bias) biases_.push_back(bias.data());
  for (const CombineOptions::Return& one : options.returns) {
    const int64_t bytes = dtype_size(one.in.dtype());
    returns_.push_back({rows_of(one.in), rows_of(one.out), bytes});
    return_bytes_ += bytes;
  }
}

absl::StatusOr<Work> CombineCall::send_first(bool async) {
  const Crossings& crossings = plan_->parts.crossings;
  plan_->count_call(moves_.by_pair ? crossings.none
                    : two_hops_    ? crossings.node
                                   : crossings.rank,
                    stride_ + return_bytes_);
  absl::StatusOr<Work> rows = two_hops_ ? send_sums(async) : move_rows(async);
  if (!rows.ok() || returns_.empty()) return rows;
  absl::StatusOr<Work> values = send_returns(async);
  if (!async) return values;
  if (!values.ok()) {
    rows->wait().IgnoreError();  // the exchange uses the staging memory
    return values;
  }
  return Work::all({*std::move(rows), *std::move(values)});
}

dw_moe_terms CombineCall::terms_of(const Program& program,
                                   std::vector<float>* memory) {
  dw_moe_terms list = {program.first.data(), program.terms.data(), nullptr,
                       static_cast<uint64_t>(program.rows())};
  if (weighting_ == MoeWeighting::kNone) return list;
  memory->resize(program.terms.size());
  const bool at_source = weighting_ == MoeWeighting::kAtSource;
  if (at_source) {
    const Routing& routing = plan_->parts.routing;
    memory_->slot_weights.resize(at(routing.size()));
    add_repeated(routing, weights_, memory_->slot_weights.data());
  }
  for (size_t i = 0; i < memory->size(); ++i) {
    const dw_moe_term& term = program.terms[i];
    if (at_source)
      (*memory)[i] = memory_->slot_weights[at(program.slots[i])];
    else if (term.from == DW_MOE_FROM_IN)
      (*memory)[i] = weights_[term.row];
    else
      (*memory)[i] = 1;  // a sum of weighted rows, or one with its own weight
  }
  list.weights = memory->data();
  return list;
}

void CombineCall::set_types() {
  dw_ext_moe_sum& sums = memory_->rows.sums;
  sums.in = abi_dtype(type_);
  sums.wire = abi_dtype(wire_);
  sums.out = abi_dtype(out_type_);
  sums.width = static_cast<uint64_t>(width_);
  memory_->rows.with_own = false;
}

void CombineCall::add_results() {
  dw_ext_moe_sum& sums = memory_->rows.sums;
  sums.results =
      terms_of(plan_->program(by_slot_ ? Sum::kSlots : Sum::kTree, level_),
               &memory_->result_weights);
  sums.n_biases = static_cast<uint32_t>(biases_.size());
  std::copy(biases_.begin(), biases_.end(), sums.bias);
}

// The rows take the way of a dispatch backwards, but for this rank's own, which
// are added up where they are.
absl::StatusOr<Work> CombineCall::move_rows(bool async) {
  const Hop& hop = moves_.first;
  const Layout& layout = plan_->parts.layout;
  RowExchange& rows = memory_->rows;
  if (moves_.by_pair) {
    rows.begin(layout.pair_first, hop.send_first);
    rows.give = layout.place.data();
  } else if (!plan_->expert_major() && wire_ == type_) {
    // Rank-major rows already lie in the order in which they are sent.
    rows.begin(layout.row_first, hop.send_first);
  } else {
    rows.begin(hop.recv_first, hop.send_first);
    rows.sums.given = terms_of(plan_->program(Sum::kBuckets, level_),
                               &memory_->given_weights);
  }
  rows.channels.push_back({y_.data, out_.data, at(wire_row()), nullptr});
  if (stride_ > wire_row())
    rows.channels.push_back({weights_, nullptr, 4, nullptr});
  add_results();
  set_types();
  return rows.start(exchange_, &memory_->scratch, call_tag(), async);
}

absl::StatusOr<Work> CombineCall::send_sums(bool async) {
  const Hop& hop = moves_.second;
  RowExchange& rows = memory_->rows;
  rows.begin(hop.recv_first, hop.send_first);
  rows.sums.given =
      terms_of(plan_->program(Sum::kBuckets, level_), &memory_->given_weights);
  rows.channels.push_back({y_.data, memory_->staged.grow(hop.sent() * stride_),
                           at(stride_), nullptr});
  set_types();
  return rows.start(exchange_, &memory_->scratch, call_tag(), async);
}

absl::StatusOr<Work> CombineCall::second(bool async) {
  // At the forwarder the first hop's rows are those that it once handed on.
  const Hop& hop = moves_.first;
  RowExchange& rows = memory_->rows;
  rows.end(exchange_);
  rows.begin(hop.recv_first, hop.send_first);
  rows.sums.given =
      terms_of(plan_->program(Sum::kLanes, level_), &memory_->given_weights);
  rows.channels.push_back(
      {y_.data, out_.data, at(stride_), memory_->staged.data()});
  rows.by_messages = true;
  add_results();
  set_types();
  return rows.start(exchange_, &memory_->scratch, call_tag(), async);
}

// A value for each pair, from its row, or from its slot in a row, to its slot.
absl::StatusOr<Work> CombineCall::send_returns(bool async) {
  for (const Return& one : returns_)
    if (one.out.rows > 0)
      memset(one.out.data, 0, at(one.out.rows * one.out.bytes));
  RowExchange& values = memory_->back;
  values.begin(plan_->parts.layout.pair_first, plan_->parts.own.pair_first);
  values.give = plan_->expert_major() ? plan_->parts.layout.place.data()
                                      : plan_->pair_values().data();
  values.place = plan_->own_pair_slots().data();
  for (const Return& one : returns_)
    values.channels.push_back(
        {one.in.data, one.out.data, at(one.bytes), nullptr});
  return values.start(exchange_, &memory_->scratch_back, call_tag(), async);
}

void CombineCall::end() {
  memory_->rows.end(exchange_);
  if (!returns_.empty()) memory_->back.end(exchange_);
}

}  // namespace distwrap::moe
