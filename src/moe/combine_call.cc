#include "moe/combine_call.h"

#include "moe/dispatch_call.h"

#include <absl/strings/str_cat.h>

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

bool sums_in_f32(DType dtype) {
  return dtype == DType::kF16 || dtype == DType::kBF16 || dtype == DType::kF32;
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
  check.require(sums_from(y.dtype()), Reason::kInvalidArgument,
                "rows of this type cannot be added up",
                "f16, bf16, f32, f64, i32 or i64", dtype_name(y.dtype()),
                "convert the rows");
  check.require(sums_into(y.dtype(), out.dtype()), Reason::kInvalidArgument,
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
  // rounded to the rows' type. The weights lie behind all staged rows.
  if (moves_.by_pair && weighting_ == MoeWeighting::kAtExpert) stride_ += 4;
  for (const TensorView& bias : options.bias) {
    const ByteRows rows = rows_of(bias);
    biases_.push_back({rows.data, rows.bytes, bias.dtype()});
  }
  for (const CombineOptions::Return& one : options.returns) {
    const int64_t bytes = dtype_size(one.in.dtype());
    returns_.push_back(
        {rows_of(one.in), rows_of(one.out), bytes, return_bytes_});
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

// The rows take the way of a dispatch backwards, but for this rank's own, which
// are added up where they are.
absl::StatusOr<Work> CombineCall::move_rows(bool async) {
  const Hop& hop = moves_.first;
  const Layout& layout = plan_->parts.layout;
  const int64_t row = wire_row();
  uint8_t* const staged = memory_->staged.grow(hop.sent() * stride_);
  RowExchange& rows = memory_->rows;
  if (moves_.by_pair) {
    rows.begin(layout.pair_first, hop.send_first);
    rows.give = layout.place.data();
    rows.channels.push_back({y_.data, staged, at(row)});
    if (stride_ > row)
      rows.channels.push_back({weights_, staged + hop.sent() * row, 4});
  } else if (!plan_->expert_major() && wire_ == type_) {
    // Rank-major rows already lie in the order in which they are sent.
    rows.begin(layout.row_first, hop.send_first);
    rows.channels.push_back({y_.data, staged, at(row)});
  } else {
    uint8_t* const send = memory_->send.grow(hop.received() * row);
    add_up(plan_->program(Sum::kBuckets, level_), {}, send, row, wire_, {});
    rows.begin(hop.recv_first, hop.send_first);
    rows.channels.push_back({send, staged, at(row)});
  }
  rows.with_own = false;
  return rows.start(exchange_, memory_->scratch, call_tag(), async);
}

absl::StatusOr<Work> CombineCall::send_sums(bool async) {
  const Hop& hop = moves_.second;
  PartSizes& in = memory_->sizes[0];
  PartSizes& out = memory_->sizes[1];
  uint8_t* const send = memory_->send.grow(hop.received() * stride_);
  in.from_rows(hop.recv_first, stride_);
  add_up(plan_->program(Sum::kBuckets, level_), {}, send, stride_, wire_, {});
  uint8_t* const staged = memory_->staged.grow(
      (moves_.first.sent() + moves_.second.sent()) * stride_);
  out.from_rows(hop.send_first, stride_);
  return exchange_.all_to_all({staged, out.counts, out.displs},
                              {send, in.counts, in.displs}, call_tag(), async);
}

absl::StatusOr<Work> CombineCall::send_returns(bool async) {
  const Layout& layout = plan_->parts.layout;
  const Lists& own = plan_->parts.own;
  uint8_t* to =
      memory_->returns_out.grow(layout.pair_first.back() * return_bytes_);
  uint8_t* const send = to;
  for (int64_t i = 0; i < static_cast<int64_t>(layout.row_token.size()); ++i) {
    const int64_t first = layout.pair_row_first[at(i)];
    for (int64_t j = first; j < layout.pair_row_first[at(i) + 1];
         ++j, to += return_bytes_)
      for (const Return& one : returns_) {
        const uint8_t* const from =
            plan_->expert_major()
                ? one.in.at(
                      layout.place[at(layout.place_first[at(i)] + j - first)])
                : one.in.at(i) + layout.pair_slot[at(j)] * one.bytes;
        memcpy(to + one.offset, from, at(one.bytes));
      }
  }
  uint8_t* const got = memory_->returns_in.grow(own.pairs() * return_bytes_);
  PartSizes& in = memory_->sizes[4];
  PartSizes& out = memory_->sizes[5];
  in.from_rows(layout.pair_first, return_bytes_);
  out.from_rows(own.pair_first, return_bytes_);
  return exchange_.all_to_all({got, out.counts, out.displs},
                              {send, in.counts, in.displs}, call_tag(), async);
}

void CombineCall::end_returns() {
  const Lists& own = plan_->parts.own;
  const uint8_t* from = memory_->returns_in.data();
  for (const Return& one : returns_)
    if (one.out.rows > 0)
      memset(one.out.data, 0, at(one.out.rows * one.out.bytes));
  int64_t pair = 0;
  for (size_t i = 0; i < own.row_token.size(); ++i)
    for (const int64_t last = pair + own.row_pairs[i]; pair < last;
         ++pair, from += return_bytes_)
      for (const Return& one : returns_)
        memcpy(
            one.out.at(own.row_token[i]) + own.pair_slot[at(pair)] * one.bytes,
            from + one.offset, at(one.bytes));
}

absl::StatusOr<Work> CombineCall::second(bool async) {
  // At the forwarder the first hop's rows are those that it once handed on.
  const Hop& hop = moves_.first;
  uint8_t* const send = memory_->send_on.grow(hop.received() * stride_);
  add_up(plan_->program(Sum::kLanes, level_),
         {memory_->staged.data(), stride_, wire_}, send, stride_, wire_, {});
  PartSizes& in = memory_->sizes[2];
  PartSizes& out = memory_->sizes[3];
  in.from_rows(hop.recv_first, stride_);
  out.from_rows(hop.send_first, stride_);
  return hand_on({memory_->staged.data() + moves_.second.sent() * stride_,
                  out.counts, out.displs},
                 {send, in.counts, in.displs}, async);
}

void CombineCall::end() {
  if (!two_hops_) memory_->rows.end(exchange_);
  add_up(plan_->program(by_slot_ ? Sum::kSlots : Sum::kTree, level_),
         {memory_->staged.data(), wire_row(), wire_}, out_.data, out_.bytes,
         out_type_, biases_);
  if (!returns_.empty()) end_returns();
}

absl::Span<const float> CombineCall::weights_of(const Program& program,
                                                bool at_source) {
  if (weighting_ == MoeWeighting::kNone) return {};
  std::vector<float>& weights = memory_->term_weights;
  weights.resize(program.terms.size());
  if (at_source) {
    const Routing& routing = plan_->parts.routing;
    memory_->slot_weights.resize(at(routing.size()));
    add_repeated(routing, weights_, memory_->slot_weights.data());
  }
  for (size_t i = 0; i < weights.size(); ++i) {
    const Term& term = program.terms[i];
    if (at_source)
      weights[i] = memory_->slot_weights[at(term.slot)];
    else if (term.row < 0)
      weights[i] = weights_[~term.row];
    else if (moves_.by_pair)
      memcpy(&weights[i],
             memory_->staged.data() + moves_.first.sent() * wire_row() +
                 4 * int64_t{term.row},
             4);
    else
      weights[i] = 1;  // a sum of weighted rows
  }
  return weights;
}

void CombineCall::add_up(const Program& program, NumberRows staged,
                         uint8_t* out, int64_t stride, DType dtype,
                         absl::Span<const NumberRows> biases) {
  memory_->sum.run(
      program,
      {.own = {y_.data, y_.bytes, type_},
       .staged = staged,
       .width = width_,
       .out = out,
       .out_stride = stride,
       .out_dtype = dtype,
       .biases = biases,
       .weights = weights_of(program, weighting_ == MoeWeighting::kAtSource)},
      0, program.rows());
}

}  // namespace distwrap::moe
