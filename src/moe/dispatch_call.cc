#include "moe/dispatch_call.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace distwrap::moe {
namespace {

size_t at(int64_t i) { return static_cast<size_t>(i); }

void copy(uint8_t* to, const uint8_t* from, int64_t bytes) {
  memcpy(to, from, at(bytes));
}

}  // namespace

void add_repeated(const Routing& routing, const float* weights, float* out) {
  for (int64_t t = 0, i = 0; t < routing.tokens; ++t)
    for (int64_t k = 0; k < routing.slots; ++k, ++i) {
      const int32_t expert = routing.expert[at(i)];
      out[i] = expert >= 0 ? weights[i] : 0;
      if (expert <= kRepeats)
        out[t * routing.slots + kRepeats - expert] += weights[i];
    }
}

std::optional<ErrorInfo> DispatchCall::find_fault(
    PlanState& plan, const TensorView& x, const TensorView& out,
    absl::Span<const SideChannel> side) {
  ViewCheck check;
  check.view("x", x, plan.tokens(), true, false);
  check.view("out", out, plan.output_rows(), false, true);
  check.same_type("x", x, "out", out);
  check.same_row("x", x, "out", out);
  check.apart("x", x, "out", out);
  for (size_t i = 0; i < side.size(); ++i) {
    const std::string in = absl::StrCat("side[", i, "].in");
    const std::string to = absl::StrCat("side[", i, "].out");
    check.view(in, side[i].in, plan.tokens(), true, false);
    check.view(to, side[i].out, plan.output_rows(), false, true);
    check.same_type(in, side[i].in, to, side[i].out);
    check.apart(in, side[i].in, to, side[i].out);
    check.apart("out", out, to, side[i].out);
    if (side[i].kind == SideChannel::Kind::kRows) {
      check.same_row(in, side[i].in, to, side[i].out);
      continue;
    }
    check.require(side[i].in.dtype() == DType::kF32, Reason::kInvalidArgument,
                  "the weights have another type", "f32",
                  dtype_name(side[i].in.dtype()), "give weights in f32");
    check.elements(in, side[i].in, plan.slots());
    check.elements(to, side[i].out, plan.expert_major() ? 1 : plan.slots());
  }
  return check.fault();
}

DispatchCall::DispatchCall(std::shared_ptr<PlanState> plan, CallPlace place,
                           const TensorView& x, const TensorView& out,
                           absl::Span<const SideChannel> side)
    : MoeCall(std::move(plan), std::move(place)),
      moves_(plan_->moves(plan_->parts.level)),
      dtype_(x.dtype()) {
  two_hops_ = moves_.two_hops;
  const auto add = [&](const TensorView& in, const TensorView& to,
                       bool weights) {
    channels_.push_back({rows_of(in), rows_of(to), weights});
    stride_ += channels_.back().in.bytes;
  };
  add(x, out, false);
  for (const SideChannel& one : side)
    add(one.in, one.out, one.kind == SideChannel::Kind::kWeights);
}

// From here on the weights of a token are those that travel.
void DispatchCall::sum_weights() {
  const Routing& routing = plan_->parts.routing;
  const auto size = at(routing.size());
  size_t begin = 0;
  for (const Channel& channel : channels_) begin += channel.weights ? size : 0;
  memory_->slot_weights.resize(begin);
  for (Channel& channel : channels_) {
    if (!channel.weights) continue;
    begin -= size;
    float* const sums = memory_->slot_weights.data() + begin;
    add_repeated(routing, reinterpret_cast<const float*>(channel.in.data),
                 sums);
    channel.in.data = reinterpret_cast<uint8_t*>(sums);
  }
}

absl::StatusOr<Work> DispatchCall::send_first(bool async) {
  sum_weights();
  const Crossings& crossings = plan_->parts.crossings;
  plan_->count_call(moves_.by_pair ? crossings.none
                    : two_hops_    ? crossings.node
                                   : crossings.rank,
                    stride_);
  return two_hops_ ? send_rows(async) : move_rows(async);
}

absl::StatusOr<Work> DispatchCall::move_rows(bool async) {
  const Lists& own = plan_->parts.own;
  const Layout& layout = plan_->parts.layout;
  RowExchange& rows = memory_->rows;
  if (moves_.by_pair) {
    rows.begin(own.pair_first, layout.pair_first);
    rows.give = moves_.give.data();
    rows.place_first = moves_.place_first.data();
    rows.place = layout.place.data();
  } else {
    rows.begin(own.row_first, layout.row_first);
    rows.give = own.row_token.data();
    // In rank-major order rows come in the order of their places.
    if (plan_->expert_major()) {
      rows.place_first = layout.place_first.data();
      rows.place = layout.place.data();
    }
  }
  add_channels();
  return rows.start(exchange_, &memory_->scratch, call_tag(), async);
}

void DispatchCall::add_channels() {
  // Weights of all slots fit an output row only in rank-major order.
  const auto is_apart = [&](const Channel& channel) {
    return channel.weights && plan_->expert_major();
  };
  int64_t apart = 0;
  for (const Channel& channel : channels_)
    if (is_apart(channel)) apart += plan_->output_rows() * channel.in.bytes;
  uint8_t* weights = memory_->weights.grow(apart);
  const uint8_t* kept = memory_->staged.data();
  for (const Channel& channel : channels_) {
    uint8_t* const out = is_apart(channel) ? weights : channel.out.data;
    if (is_apart(channel)) weights += plan_->output_rows() * channel.in.bytes;
    memory_->rows.channels.push_back(
        {channel.in.data, out, at(channel.in.bytes), kept});
    if (two_hops_) kept += moves_.first.received() * channel.in.bytes;
  }
}

void DispatchCall::pick_weights(const Channel& channel, const uint8_t* came) {
  const Layout& layout = plan_->parts.layout;
  const int64_t slots = plan_->slots();
  for (size_t i = 0; i < layout.row_token.size(); ++i) {
    const int64_t first = layout.pair_row_first[i],
                  last = layout.pair_row_first[i + 1];
    if (plan_->expert_major()) {
      for (int64_t j = first; j < last; ++j) {
        const int64_t row = layout.place[at(layout.place_first[i] + j - first)];
        copy(channel.out.at(row),
             came + 4 * (row * slots + layout.pair_slot[at(j)]), 4);
      }
      continue;
    }
    uint8_t* const row =
        channel.out.at(layout.place[at(layout.place_first[i])]);
    for (int64_t k = 0; k < slots; ++k) {
      const auto* const pairs = layout.pair_slot.data();
      if (std::find(pairs + first, pairs + last, k) == pairs + last)
        memset(row + 4 * k, 0, 4);
    }
  }
}

absl::StatusOr<Work> DispatchCall::send_rows(bool async) {
  RowExchange& rows = memory_->rows;
  rows.begin(plan_->parts.forward.row_first, moves_.first.recv_first);
  rows.give = plan_->parts.forward.row_token.data();
  rows.with_own = false;
  uint8_t* staged = memory_->staged.grow(moves_.first.received() * stride_);
  for (const Channel& channel : channels_) {
    rows.channels.push_back(
        {channel.in.data, staged, at(channel.in.bytes), nullptr});
    staged += moves_.first.received() * channel.in.bytes;
  }
  return rows.start(exchange_, &memory_->scratch, call_tag(), async);
}

absl::StatusOr<Work> DispatchCall::second(bool async) {
  RowExchange& rows = memory_->rows;
  rows.end(exchange_);
  const Moves::Delivery& delivery = moves_.delivery;
  rows.begin(delivery.give_first, delivery.get_first);
  rows.give = delivery.give.data();
  rows.place_first = delivery.place_first.data();
  rows.place = delivery.place.data();
  rows.by_messages = true;
  add_channels();
  return rows.start(exchange_, &memory_->scratch, call_tag(), async);
}

void DispatchCall::clear_padding() {
  const Layout& layout = plan_->parts.layout;
  if (!plan_->expert_major() || !plan_->zero_padding) return;
  for (size_t b = 0; b < layout.counts.size(); ++b) {
    const int64_t first = layout.padding_begin(b);
    const int64_t rows = layout.offsets[b + 1] - first;
    for (const Channel& channel : channels_)
      if (rows > 0)
        memset(channel.out.at(first), 0, at(rows * channel.out.bytes));
  }
}

void DispatchCall::end() {
  memory_->rows.end(exchange_);
  for (size_t c = 0; c < channels_.size(); ++c)
    if (channels_[c].weights)
      pick_weights(channels_[c],
                   static_cast<const uint8_t*>(memory_->rows.channels[c].out));
  clear_padding();
}

}  // namespace distwrap::moe
