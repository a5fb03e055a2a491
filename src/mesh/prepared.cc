#include "mesh/prepared.h"

#include "distwrap/deadline.h"
#include "distwrap/distwrap.h"
#include "layout/peers.h"
#include "mesh/divide.h"

#include <absl/container/inlined_vector.h>
#include <absl/strings/str_cat.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <numeric>
#include <tuple>
#include <utility>

namespace distwrap::mesh {
namespace {

using Kind = PlanStep::Kind;
using layout::Coordinates;
using layout::Regions;

// The reduction of values in this form.
ReduceOp reduce_op(PartialOp op, const WireForm& form) {
  switch (op) {
    case PartialOp::kAvg:
      return form.divides() ? ReduceOp::kSum : ReduceOp::kAvg;
    case PartialOp::kMin:
      return ReduceOp::kMin;
    case PartialOp::kMax:
      return ReduceOp::kMax;
    case PartialOp::kProduct:
      return ReduceOp::kProduct;
    case PartialOp::kBand:
      return ReduceOp::kBand;
    case PartialOp::kBor:
      return ReduceOp::kBor;
    case PartialOp::kBxor:
      return ReduceOp::kBxor;
    case PartialOp::kNorm:  // as powers
    case PartialOp::kSum:
      break;
  }
  return ReduceOp::kSum;
}

// Whether the rank keeps its values when axes become partial sums: along axes
// that were replicated only the first one does.
bool keeps_values(const Coordinates& at, int64_t rank, const Layout& from,
                  const Layout& to) {
  for (size_t a = 0; a < to.placements().size(); ++a) {
    const Placement &was = from.placements()[a], &is = to.placements()[a];
    if (is.kind == Placement::Kind::kPartial && is.op == PartialOp::kSum &&
        was.kind == Placement::Kind::kReplicate &&
        at.of(rank, static_cast<int>(a)) != 0)
      return false;
  }
  return true;
}

// The places of the tensors' elements at one point between two steps.
using AllRegions = std::vector<std::unique_ptr<Regions>>;

std::vector<int> without(std::vector<int> axes, const std::vector<int>& those) {
  for (const int axis : those) std::erase(axes, axis);
  return axes;
}

// The most elements that a rank has of all tensors.
int64_t largest(const AllRegions& regions) {
  int64_t sum = 0;
  for (const auto& of : regions) sum += of->largest();
  return sum;
}

// The blocks that a rank sends to each member of its group in a step, and gets
// from each. A block is what it holds before the step and a member afterwards,
// or the other way round. Steps without a group have one block of each tensor.
// In two levels a gather is an exchange, and the members to which a
// reduction is scattered are in the order of the host's ranks.
std::pair<Blocks, Blocks> blocks_between(const AllRegions& before,
                                         const AllRegions& after,
                                         const Coordinates& at,
                                         const PlanStep& step, int64_t rank) {
  Blocks send, receive;
  const auto send_to = [&](int64_t member) {
    send.begin_member();
    for (size_t t = 0; t < before.size(); ++t)
      send.add(Block::common(*before[t], rank, *after[t], member), t);
  };
  const auto receive_from = [&](int64_t member) {
    receive.begin_member();
    for (size_t t = 0; t < before.size(); ++t)
      receive.add(Block::common(*after[t], rank, *before[t], member), t);
  };
  const auto each = [&](const auto& f) {
    layout::each_member(at, rank, step.axes, f);
  };
  switch (step.kind) {
    case Kind::kSlice:
      send_to(rank);
      break;
    case Kind::kFill:
      receive_from(rank);
      break;
    case Kind::kDivide:
      break;
    case Kind::kAllReduce:
      send_to(rank);
      receive_from(rank);
      break;
    case Kind::kReduceScatter:
      layout::each_member(at, rank, step.near, [&](int64_t near) {
        layout::each_member(at, near, without(step.axes, step.near), send_to);
      });
      receive_from(rank);
      break;
    case Kind::kAllGather:
      if (step.near.empty())
        send_to(rank);
      else
        each(send_to);
      each(receive_from);
      break;
    case Kind::kExchange:
      each(send_to);
      each(receive_from);
      break;
  }
  return {std::move(send), std::move(receive)};
}

}  // namespace

void Rounds::add(const Blocks& send, const Blocks& receive, bool two_levels) {
  const int64_t all = send.total() + receive.total();
  if (two_levels)
    most_ = std::max(most_, 2 * all);
  else if (!send.is_packed() || !receive.is_packed())
    most_ = std::max(most_, all);
}

int64_t Rounds::number(int64_t room, size_t size) const {
  const int64_t elements =
      std::max(room / static_cast<int64_t>(size), int64_t{1});
  return std::max((most_ + elements - 1) / elements, int64_t{1});
}

absl::StatusOr<std::shared_ptr<Prepared>> Prepared::make(
    const DeviceMesh& mesh, absl::Span<const PlanRef> plans, DType dtype,
    std::optional<DType> wire) {
  const absl::StatusOr<WireForm> form =
      WireForm::make(*plans.front(), dtype, wire);
  if (!form.ok()) return form.status();
  std::shared_ptr<Prepared> made(new Prepared(*form, mesh));
  for (const PlanRef& plan : plans)
    made->in_counts_.push_back(
        Regions(plan->source(), plan->shape()).count(mesh.rank()));
  if (absl::Status status = made->add_plans(mesh, plans); !status.ok())
    return status;
  std::string text = made->form_text();
  for (const PlanRef& plan : plans) absl::StrAppend(&text, "\n", plan->text());
  made->finish(text);
  return made;
}

absl::Status Prepared::add_plans(const DeviceMesh& mesh,
                                 absl::Span<const PlanRef> plans) {
  const int64_t me = mesh.rank();
  const Coordinates at(mesh.shape().sizes);
  const auto regions_of = [&](const Layout& layout) {
    AllRegions all;
    for (const PlanRef& plan : plans)
      all.push_back(std::make_unique<Regions>(layout, plan->shape()));
    return all;
  };
  const Plan& first = *plans.front();
  const Layout* before = &first.source();
  AllRegions regions = regions_of(*before);
  for (size_t i = 0; i < first.steps().size(); ++i) {
    const PlanStep& step = first.steps()[i];
    AllRegions next = regions_of(*step.to);
    Step one;
    one.kind = step.kind;
    one.op = reduce_op(step.op, form_);
    one.divisor = step.divisor;
    for (const auto& of : next) one.counts.push_back(of->count(me));
    one.label = absl::StrCat("redistribute ", first.source().text(), "->",
                             first.target().text(), " ", i + 1, "/",
                             first.steps().size());
    if (!step.axes.empty()) {
      absl::StatusOr<Group> group = mesh.group_along(step.axes);
      if (!group.ok()) return group.status();
      one.group = *std::move(group);
    }
    if (!step.near.empty()) {
      absl::StatusOr<Levels> levels = make_levels(mesh, step);
      if (!levels.ok()) return levels.status();
      one.levels = *std::move(levels);
    }
    const bool is_last = i + 1 == first.steps().size();
    one.keeps =
        step.kind != Kind::kFill || keeps_values(at, me, *before, *step.to);
    const auto blocks_of = [&](int64_t rank) {
      return blocks_between(regions, next, at, step, rank);
    };
    std::tie(one.send, one.receive) = blocks_of(me);
    const int64_t held = largest(regions), made = largest(next);
    const int64_t room = room_for_packing(
        first.options().cap_bytes, (i == 0 ? 0 : held) + (is_last ? 0 : made));
    if ((step.kind == Kind::kExchange || step.kind == Kind::kAllGather) &&
        one.levels.ranks == 1) {
      backend_moves_blocks_ |= moves_blocks(one);
      std::vector<int64_t> members;
      layout::each_member(at, me, step.axes,
                          [&](int64_t member) { members.push_back(member); });
      one.moves_blocks = leaves_blocks(one, members, held + made, blocks_of);
    }
    if (one.group && !one.moves_blocks &&
        held + made > room / static_cast<int64_t>(size_)) {
      Rounds rounds;
      layout::each_member(at, me, step.axes, [&](int64_t member) {
        const auto [send, receive] = blocks_of(member);
        rounds.add(send, receive, one.levels.ranks != 1);
      });
      one.rounds = rounds.number(room, size_);
    }
    steps_.push_back(std::move(one));
    before = step.to;
    regions = std::move(next);
  }
  return absl::OkStatus();
}

void Prepared::finish(const std::string& text) {
  out_counts_ = steps_.empty() ? in_counts_ : steps_.back().counts;
  for (size_t i = 0; i < steps_.size(); ++i) {
    Step& step = steps_[i];
    if (step.group && step.rounds == 1 && step.levels.ranks == 1)
      step.call = std::make_unique<StepCall>(
          step.group, fingerprint_of(absl::StrCat(text, "\n", step.label)));
    // A round of each member's elements may be larger by one.
    const auto of_round = [&](const Blocks& blocks) {
      return step.rounds == 1
                 ? blocks.total()
                 : blocks.total() / step.rounds +
                       static_cast<int64_t>(blocks.counts().size());
    };
    const bool always = step.rounds != 1 || step.levels.ranks != 1;
    if (step.moves_blocks)
      step.blocks =
          std::make_unique<StepBlocks>(step.send, step.receive, size_);
    const auto packed = [&](const Blocks& blocks) {
      const bool packs =
          step.group && !step.moves_blocks && (always || !blocks.is_packed());
      return packs ? of_round(blocks) : 0;
    };
    pieces_ = std::max(pieces_, packed(step.send));
    parts_ = std::max(parts_, packed(step.receive));
    // A share of a share may be larger by one, too.
    if (step.levels.ranks != 1)
      middle_ = std::max(
          middle_, of_round(step.kind == Kind::kReduceScatter ? step.send
                                                              : step.receive) +
                       step.levels.ranks *
                           static_cast<int64_t>(step.receive.counts().size()));
    if (i + 1 != steps_.size())
      between_ = std::max(
          between_,
          std::accumulate(step.counts.begin(), step.counts.end(), int64_t{0}));
  }
  places_ = std::min<size_t>(2, steps_.empty() ? 0 : steps_.size() - 1);
}

absl::Status Prepared::run(absl::Span<const LocalTensor> outs,
                           absl::Span<const LocalTensor> ins,
                           std::optional<absl::Duration> timeout) const {
  const auto converts = [&](absl::Span<const LocalTensor> parts) {
    return !form_.is_plain() || std::any_of(parts.begin(), parts.end(),
                                            [](const LocalTensor& tensor) {
                                              return !tensor.strides.empty();
                                            });
  };
  const bool converts_in = converts(ins), converts_out = converts(outs);
  const Staging staging(*this, converts_in, converts_out);
  absl::InlinedVector<const std::byte*, 4> from;
  absl::InlinedVector<std::byte*, 4> to;
  std::byte *given = staging.given(), *made = staging.made();
  for (size_t t = 0; t < ins.size(); ++t) {
    from.push_back(converts_in ? given : ins[t].data);
    to.push_back(converts_out ? made : outs[t].data);
    if (converts_in) {
      form_.enter(given, ins[t], in_counts_[t]);
      given += bytes(in_counts_[t]);
    }
    if (converts_out) made += bytes(out_counts_[t]);
  }
  if (absl::Status status = run_steps(to, from, staging, timeout); !status.ok())
    return status;
  if (converts_out)
    for (size_t t = 0; t < outs.size(); ++t)
      form_.leave(outs[t], to[t], out_counts_[t]);
  return absl::OkStatus();
}

absl::Status Prepared::run_steps(absl::Span<std::byte* const> out,
                                 absl::Span<const std::byte* const> in,
                                 const Staging& staging,
                                 std::optional<absl::Duration> timeout) const {
  const size_t tensors = in_counts_.size();
  if (steps_.empty()) {
    for (size_t t = 0; t < tensors; ++t)
      if (in_counts_[t] != 0) std::memcpy(out[t], in[t], bytes(in_counts_[t]));
    return absl::OkStatus();
  }
  const Deadline deadline =
      timeout.has_value() ? Deadline::after(*timeout) : Deadline::never();
  absl::InlinedVector<const std::byte*, 4> from(in.begin(), in.end());
  absl::InlinedVector<std::byte*, 4> to(out.begin(), out.end());
  for (size_t i = 0; i < steps_.size(); ++i) {
    const Step& step = steps_[i];
    if (i + 1 == steps_.size()) {
      std::copy(out.begin(), out.end(), to.begin());
    } else {
      std::byte* next = staging.between(i % 2);
      for (size_t t = 0; t < tensors; ++t) {
        to[t] = next;
        next += bytes(step.counts[t]);
      }
    }
    // One time limit covers all steps.
    if (timeout.has_value())
      timeout = std::max(deadline.remaining(), absl::Nanoseconds(1));
    if (absl::Status status =
            run_step(step, to.data(), from.data(), staging, timeout);
        !status.ok()) {
      break_groups(status);
      return status;
    }
    from.assign(to.begin(), to.end());
  }
  return absl::OkStatus();
}

absl::Status Prepared::run_step(const Step& step, std::byte* const* to,
                                const std::byte* const* from,
                                const Staging& staging,
                                std::optional<absl::Duration> timeout) const {
  const size_t tensors = step.counts.size();
  switch (step.kind) {
    case Kind::kSlice:
      for (size_t t = 0; t < tensors; ++t)
        step.send.block(t).pack(to[t], from[t], size_);
      return absl::OkStatus();
    case Kind::kFill:
      for (size_t t = 0; t < tensors; ++t) {
        if (step.counts[t] != 0) std::memset(to[t], 0, bytes(step.counts[t]));
        if (step.keeps) step.receive.block(t).unpack(from[t], to[t], size_);
      }
      return absl::OkStatus();
    case Kind::kDivide:
      for (size_t t = 0; t < tensors; ++t)
        if (!form_.divides())
          divide(to[t], from[t], step.counts[t], form_.inside(), step.divisor);
        else if (step.counts[t] != 0)
          std::memcpy(to[t], from[t], bytes(step.counts[t]));
      return absl::OkStatus();
    default:
      break;
  }
  if (step.levels.ranks != 1)
    return run_levels(step, to, from, staging, timeout);
  if (step.rounds != 1) return run_rounds(step, to, from, staging, timeout);
  if (step.blocks != nullptr) return run_blocks(step, to[0], from[0], timeout);
  // Packed memory where the regions' own does not have the order.
  const bool packs = !step.send.is_packed();
  const bool unpacks = !step.receive.is_packed();
  if (packs) step.send.pack(staging.pieces(), from, size_);
  const absl::Status status = communicate(
      step, view(unpacks ? staging.parts() : to[0], step.receive.total()),
      view(packs ? staging.pieces() : from[0], step.send.total()), timeout);
  if (!status.ok()) return status;
  if (unpacks) step.receive.unpack(staging.parts(), to, size_);
  return absl::OkStatus();
}

bool Prepared::moves_blocks(const Step& step) {
  return StepCall::moves_blocks(step.group, step.kind == Kind::kAllGather
                                                ? DW_OP_ALL_GATHER
                                                : DW_OP_ALL_TO_ALL);
}

absl::Status Prepared::run_blocks(const Step& step, std::byte* to,
                                  const std::byte* from,
                                  std::optional<absl::Duration> timeout) const {
  // The extension tells the bytes; the views only where they count from.
  const TensorView out(to, 0, DType::kU8);
  const TensorView in(const_cast<std::byte*>(from), 0, DType::kU8);
  const auto describe = [&]() -> StepCall::Arguments {
    comm::AnyCall call = {};
    call.out = out;
    call.in = in;
    call.per_rank = true;
    call.out_counts = Counts{.counts = step.blocks->out_counts()};
    call.next = step.blocks->extension();
    call.placed_by_extension = true;
    if (step.kind == Kind::kAllGather) {
      call.in = TensorView(in.data(), step.blocks->in_counts()[0], in.dtype());
      return {DW_OP_ALL_GATHER, call};
    }
    call.in_counts = Counts{.counts = step.blocks->in_counts()};
    return {DW_OP_ALL_TO_ALL, call};
  };
  return step.call->run(out, in, {.timeout = timeout, .label = step.label},
                        describe);
}

absl::Status Prepared::run_rounds(const Step& step, std::byte* const* to,
                                  const std::byte* const* from,
                                  const Staging& staging,
                                  std::optional<absl::Duration> timeout) const {
  // A time limit covers all rounds.
  const Deadline deadline =
      timeout.has_value() ? Deadline::after(*timeout) : Deadline::never();
  for (Share share{0, step.rounds}; share.number < share.parts;
       ++share.number) {
    step.send.pack(staging.pieces(), from, size_, share);
    if (timeout.has_value() && share.number != 0)
      timeout = std::max(deadline.remaining(), absl::Nanoseconds(1));
    const absl::Status status = communicate_share(
        step, share, view(staging.parts(), step.receive.total(share)),
        view(staging.pieces(), step.send.total(share)),
        {.group = step.group, .timeout = timeout, .label = step.label});
    if (!status.ok()) return status;
    step.receive.unpack(staging.parts(), to, size_, share);
  }
  return absl::OkStatus();
}

absl::Status Prepared::communicate(
    const Step& step, TensorView to, TensorView from,
    std::optional<absl::Duration> timeout) const {
  std::vector<int64_t> kept[2];
  const auto counts = [&](const Blocks& blocks, std::vector<int64_t>& own) {
    own = elements(blocks.counts());
    return Counts{.counts = own};
  };
  const auto all_equal = [](const std::vector<int64_t>& list) {
    return std::adjacent_find(list.begin(), list.end(),
                              std::not_equal_to<>()) == list.end();
  };
  const auto describe = [&]() -> StepCall::Arguments {
    comm::AnyCall call = {};
    call.out = to;
    call.in = from;
    if (step.kind == Kind::kAllReduce || step.kind == Kind::kReduceScatter) {
      call.op = step.op;
      call.reduce = step.op.kind();
    }
    switch (step.kind) {
      case Kind::kAllReduce:
        return {DW_OP_ALL_REDUCE, call};
      // Where all ranks know that all pieces are equal, no counts are given.
      case Kind::kReduceScatter:
        call.per_rank = !all_equal(step.send.counts());
        if (call.per_rank) call.in_counts = counts(step.send, kept[0]);
        return {DW_OP_REDUCE_SCATTER, call};
      case Kind::kAllGather:
        call.per_rank = !all_equal(step.receive.counts());
        if (call.per_rank) call.out_counts = counts(step.receive, kept[0]);
        return {DW_OP_ALL_GATHER, call};
      default:
        call.per_rank = true;
        call.out_counts = counts(step.receive, kept[0]);
        call.in_counts = counts(step.send, kept[1]);
        return {DW_OP_ALL_TO_ALL, call};
    }
  };
  return step.call->run(to, from, {.timeout = timeout, .label = step.label},
                        describe);
}

absl::Status Prepared::communicate_share(const Step& step, Share share,
                                         TensorView to, TensorView from,
                                         const OpOptions& options) const {
  switch (step.kind) {
    case Kind::kAllReduce:
      return all_reduce(to, from, step.op, options).status();
    case Kind::kReduceScatter:
      return reduce_scatter_v(to, from, elements(step.send.counts(share)),
                              step.op, options)
          .status();
    case Kind::kAllGather:
      return all_gather_v(to, from, elements(step.receive.counts(share)),
                          options)
          .status();
    default:
      return all_to_all_single(to, from, elements(step.receive.counts(share)),
                               elements(step.send.counts(share)), options)
          .status();
  }
}

Prepared::Staging::Staging(const Prepared& of, bool converts_in,
                           bool converts_out)
    : of_(of) {
  const auto all = [&](const std::vector<int64_t>& counts) {
    return of.bytes(std::accumulate(counts.begin(), counts.end(), int64_t{0}));
  };
  if (converts_in) given_bytes_ = all(of.in_counts_);
  size_t bytes = of.places_ * of.bytes(of.between_) +
                 of.bytes(of.pieces_ + of.parts_ + of.middle_) + given_bytes_;
  if (converts_out) bytes += all(of.out_counts_);
  if (bytes == 0) return;
  block_ = of.spare_.exchange(nullptr, std::memory_order_acquire);
  size_t there = 0;
  if (block_ != nullptr) std::memcpy(&there, block_, sizeof there);
  if (there < bytes) {
    delete[] block_;
    block_ = nullptr;
    block_ = new std::byte[kHead + bytes];
    std::memcpy(block_, &bytes, sizeof bytes);
  }
  memory_ = block_ + kHead;
}

Prepared::Staging::~Staging() {
  // Where runs overlap in time, one of their pieces of memory is kept.
  if (block_ != nullptr)
    delete[] of_.spare_.exchange(block_, std::memory_order_acq_rel);
}

std::string Prepared::form_text() const {
  return absl::StrCat(dtype_name(form_.outside()), " as ",
                      dtype_name(form_.inside()), " x ", form_.words());
}

TensorView Prepared::view(const std::byte* data, int64_t count) const {
  // The operations do not write to their inputs.
  return TensorView(const_cast<std::byte*>(data), count * form_.words(),
                    form_.inside());
}

}  // namespace distwrap::mesh
