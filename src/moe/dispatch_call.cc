#include "moe/dispatch_call.h"

#include <absl/strings/str_cat.h>

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
    channels_.push_back({rows_of(in), rows_of(to), stride_, weights});
    stride_ += channels_.back().in.bytes;
  };
  add(x, out, false);
  for (const SideChannel& one : side)
    add(one.in, one.out, one.kind == SideChannel::Kind::kWeights);
  direct_ = !two_hops_ && !moves_.by_pair && !plan_->expert_major() &&
            channels_.size() == 1;
}

void DispatchCall::pack(int64_t token, uint8_t* to) const {
  for (const Channel& channel : channels_)
    copy(to + channel.offset, channel.in.at(token), channel.in.bytes);
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
  const Hop& hop = moves_.first;
  uint8_t* const send = memory_->send.grow(hop.sent() * stride_);
  uint8_t* to = send;
  for (const int32_t row : hop.send_row) {
    pack(~row, to);
    to += stride_;
  }
  PartSizes& out = memory_->sizes[0];
  PartSizes& in = memory_->sizes[1];
  in.from_rows(hop.send_first, stride_);
  uint8_t* staged;
  if (direct_) {
    // Rank-major rows arrive where they belong.
    staged = channels_[0].out.data;
    out.from_rows(plan_->parts.layout.row_first, stride_);
    out.counts[at(plan_->parts.rank)] = 0;
  } else {
    staged = memory_->staged.grow((hop.received() + moves_.second.received()) *
                                  stride_);
    out.from_rows(hop.recv_first, stride_);
  }
  const Crossings& crossings = plan_->parts.crossings;
  plan_->count_call(moves_.by_pair    ? crossings.none
                    : moves_.two_hops ? crossings.node
                                      : crossings.rank,
                    stride_);
  return exchange_.all_to_all({staged, out.counts, out.displs},
                              {send, in.counts, in.displs}, call_tag(), async);
}

absl::StatusOr<Work> DispatchCall::second(bool async) {
  const Hop& hop = moves_.second;
  uint8_t* const send = memory_->send_on.grow(hop.sent() * stride_);
  uint8_t* to = send;
  const uint8_t* const staged = memory_->staged.data();
  for (const int32_t row : hop.send_row) {
    if (row < 0)
      pack(~row, to);
    else
      copy(to, staged + row * stride_, stride_);
    to += stride_;
  }
  PartSizes& out = memory_->sizes[2];
  PartSizes& in = memory_->sizes[3];
  in.from_rows(hop.send_first, stride_);
  out.from_rows(hop.recv_first, stride_);
  return hand_on({memory_->staged.data() + moves_.first.received() * stride_,
                  out.counts, out.displs},
                 {send, in.counts, in.displs}, async);
}

void DispatchCall::write(const Channel& channel, const uint8_t* from,
                         int64_t row, int64_t i, int64_t pair) {
  if (!channel.weights) {
    copy(channel.out.at(row), from, channel.out.bytes);
    return;
  }
  const Layout& layout = plan_->parts.layout;
  uint8_t* const to = channel.out.at(row);
  const auto slot = [&](int64_t j) {
    return from + 4 * layout.pair_slot[at(j)];
  };
  if (plan_->expert_major()) {
    copy(to, slot(pair), 4);
    return;
  }
  memset(to, 0, at(channel.out.bytes));
  for (int64_t j = layout.pair_row_first[at(i)];
       j < layout.pair_row_first[at(i) + 1]; ++j)
    copy(to + 4 * layout.pair_slot[at(j)], slot(j), 4);
}

void DispatchCall::deliver(int64_t i, const uint8_t* row, int32_t token) {
  const Layout& layout = plan_->parts.layout;
  const int64_t first = layout.place_first[at(i)];
  for (int64_t j = first; j < layout.place_first[at(i) + 1]; ++j)
    for (const Channel& channel : channels_)
      write(channel, source(channel, row, token), layout.place[at(j)], i,
            layout.pair_row_first[at(i)] + j - first);
}

void DispatchCall::deliver_pair(int64_t i, int64_t pair, const uint8_t* row,
                                int32_t token) {
  const Layout& layout = plan_->parts.layout;
  const int64_t first = layout.pair_row_first[at(i)];
  // In rank-major order the copies of a row are equal.
  if (!plan_->expert_major() && pair != first) return;
  const int64_t place =
      layout.place[at(layout.place_first[at(i)] + pair - first)];
  for (const Channel& channel : channels_)
    write(channel, source(channel, row, token), place, i, pair);
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
  const Layout& layout = plan_->parts.layout;
  const uint8_t* const staged = memory_->staged.data();
  const auto place = [&](int32_t from) {
    return from < 0 ? nullptr : staged + from * stride_;
  };
  if (direct_) {
    const auto me = at(plan_->parts.rank);
    for (int64_t i = layout.row_first[me]; i < layout.row_first[me + 1]; ++i)
      deliver(i, nullptr, layout.row_token[at(i)]);
    return;
  }
  for (int64_t i = 0; i < static_cast<int64_t>(layout.row_token.size()); ++i) {
    const int32_t token = layout.row_token[at(i)];
    if (!moves_.by_pair) {
      deliver(i, place(moves_.from[at(i)]), token);
      continue;
    }
    for (int64_t j = layout.pair_row_first[at(i)];
         j < layout.pair_row_first[at(i) + 1]; ++j)
      deliver_pair(i, j, place(moves_.from[at(j)]), token);
  }
  clear_padding();
}

}  // namespace distwrap::moe
