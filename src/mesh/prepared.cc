#include "mesh/prepared.h"

#include "distwrap/deadline.h"
#include "distwrap/distwrap.h"
#include "layout/peers.h"
#include "mesh/divide.h"

#include <absl/container/inlined_vector.h>
#include <absl/strings/str_cat.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <numeric>
#include <utility>

namespace distwrap::mesh {
namespace {

using Kind = PlanStep::Kind;
using layout::Coordinates;
using layout::Regions;

ReduceOp reduce_op(PartialOp op) {
  switch (op) {
    case PartialOp::kAvg:
      return ReduceOp::kAvg;
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

}  // namespace

absl::StatusOr<std::shared_ptr<Prepared>> Prepared::make(
    const DeviceMesh& mesh, absl::Span<const PlanRef> plans, DType dtype) {
  std::shared_ptr<Prepared> made(new Prepared(dtype, mesh));
  for (const PlanRef& plan : plans)
    made->in_counts_.push_back(
        Regions(plan->source(), plan->shape()).count(mesh.rank()));
  if (absl::Status status = made->add_plans(mesh, plans); !status.ok())
    return status;
  made->finish();
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
    one.op = reduce_op(step.op);
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
    // A block is what this rank holds before the step and `member` afterwards,
    // or the other way round.
    const auto send_to = [&](int64_t member) {
      one.send.begin_member();
      for (size_t t = 0; t < plans.size(); ++t)
        one.send.add(Block::common(*regions[t], me, *next[t], member), t);
    };
    const auto receive_from = [&](int64_t member) {
      one.receive.begin_member();
      for (size_t t = 0; t < plans.size(); ++t)
        one.receive.add(Block::common(*next[t], me, *regions[t], member), t);
    };
    const auto each = [&](const auto& f) {
      layout::each_member(at, me, step.axes, f);
    };
    switch (step.kind) {
      case Kind::kSlice:
        send_to(me);
        break;
      case Kind::kFill:
        receive_from(me);
        one.keeps = keeps_values(at, me, *before, *step.to);
        break;
      case Kind::kDivide:
        break;
      case Kind::kAllReduce:
        send_to(me);
        receive_from(me);
        break;
      case Kind::kReduceScatter:
        each(send_to);
        receive_from(me);
        break;
      case Kind::kAllGather:
        send_to(me);
        each(receive_from);
        break;
      case Kind::kExchange:
        each(send_to);
        each(receive_from);
        break;
    }
    steps_.push_back(std::move(one));
    before = step.to;
    regions = std::move(next);
  }
  return absl::OkStatus();
}

void Prepared::finish() {
  out_counts_ = steps_.empty() ? in_counts_ : steps_.back().counts;
  for (size_t i = 0; i < steps_.size(); ++i) {
    const Step& step = steps_[i];
    if (step.group && !step.send.is_packed())
      pieces_ = std::max(pieces_, step.send.total());
    if (step.group && !step.receive.is_packed())
      parts_ = std::max(parts_, step.receive.total());
    if (i + 1 != steps_.size())
      between_ = std::max(
          between_,
          std::accumulate(step.counts.begin(), step.counts.end(), int64_t{0}));
  }
}

absl::Status Prepared::run(std::byte* const* out, const std::byte* const* in,
                           std::optional<absl::Duration> timeout) const {
  const size_t tensors = in_counts_.size();
  if (steps_.empty()) {
    for (size_t t = 0; t < tensors; ++t)
      if (in_counts_[t] != 0) std::memcpy(out[t], in[t], bytes(in_counts_[t]));
    return absl::OkStatus();
  }
  const Deadline deadline =
      timeout.has_value() ? Deadline::after(*timeout) : Deadline::never();
  const Staging staging(*this);
  absl::InlinedVector<const std::byte*, 4> from(in, in + tensors);
  absl::InlinedVector<std::byte*, 4> to(out, out + tensors);
  for (size_t i = 0; i < steps_.size(); ++i) {
    const Step& step = steps_[i];
    if (i + 1 == steps_.size()) {
      std::copy(out, out + tensors, to.begin());
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
        !status.ok())
      return status;
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
        divide(to[t], from[t], step.counts[t], dtype_, step.divisor);
      return absl::OkStatus();
    default:
      break;
  }
  // Packed memory where the regions' own does not have the order.
  const std::byte* send = from[0];
  std::byte* receive = to[0];
  if (!step.send.is_packed()) {
    step.send.pack(staging.pieces(), from, size_);
    send = staging.pieces();
  }
  if (!step.receive.is_packed()) receive = staging.parts();
  const absl::Status status = communicate(
      step, view(receive, step.receive.total()), view(send, step.send.total()),
      {.group = step.group, .timeout = timeout, .label = step.label});
  if (status.ok() && !step.receive.is_packed())
    step.receive.unpack(staging.parts(), to, size_);
  return status;
}

absl::Status Prepared::communicate(const Step& step, TensorView to,
                                   TensorView from,
                                   const OpOptions& options) const {
  switch (step.kind) {
    case Kind::kAllReduce:
      return all_reduce(to, from, step.op, options).status();
    case Kind::kReduceScatter:
      return reduce_scatter_v(to, from, step.send.counts(), step.op, options)
          .status();
    case Kind::kAllGather:
      return all_gather_v(to, from, step.receive.counts(), options).status();
    default:
      return all_to_all_single(to, from, step.receive.counts(),
                               step.send.counts(), options)
          .status();
  }
}

Prepared::Staging::Staging(const Prepared& of) : of_(of) {
  const int64_t elements = 2 * of.between_ + of.pieces_ + of.parts_;
  if (elements == 0) return;
  memory_ = of.spare_.exchange(nullptr, std::memory_order_acquire);
  if (memory_ == nullptr) memory_ = new std::byte[of.bytes(elements)];
}

Prepared::Staging::~Staging() {
  // Where runs overlap in time, one of their pieces of memory is kept.
  delete[] of_.spare_.exchange(memory_, std::memory_order_acq_rel);
}

TensorView Prepared::view(const std::byte* data, int64_t count) const {
  // The operations do not write to their inputs.
  return TensorView(const_cast<std::byte*>(data), count, dtype_);
}

}  // namespace distwrap::mesh
