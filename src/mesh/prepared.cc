#include "mesh/prepared.h"

#include "distwrap/deadline.h"
#include "distwrap/distwrap.h"
#include "layout/peers.h"
#include "mesh/divide.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <cstring>
#include <memory>
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

absl::StatusOr<std::shared_ptr<Prepared>> Prepared::make(const DeviceMesh& mesh,
                                                         const PlanRef& plan,
                                                         DType dtype) {
  const int64_t me = mesh.rank();
  const Coordinates at(mesh.shape().sizes);
  std::shared_ptr<Prepared> made(new Prepared(plan, dtype));
  made->size_ = static_cast<size_t>(dtype_size(dtype));
  const Layout* before = &plan->source();
  auto regions = std::make_unique<Regions>(*before, plan->shape());
  made->in_count_ = regions->count(me);
  for (const PlanStep& step : plan->steps()) {
    auto next = std::make_unique<Regions>(*step.to, plan->shape());
    Step one;
    one.kind = step.kind;
    one.op = reduce_op(step.op);
    one.divisor = step.divisor;
    one.count = next->count(me);
    one.label = absl::StrCat(
        "redistribute ", plan->source().text(), "->", plan->target().text(),
        " ", made->steps_.size() + 1, "/", plan->steps().size());
    if (!step.axes.empty()) {
      absl::StatusOr<Group> group = mesh.group_along(step.axes);
      if (!group.ok()) return group.status();
      one.group = *std::move(group);
    }
    const auto receive_from = [&](int64_t member) {
      one.receive.add(Block::common(*next, me, *regions, member));
    };
    switch (step.kind) {
      case Kind::kSlice:
        one.send.add(Block::common(*regions, me, *next, me));
        break;
      case Kind::kFill:
        receive_from(me);
        one.keeps = keeps_values(at, me, *before, *step.to);
        break;
      case Kind::kReduceScatter:
        layout::each_member(at, me, step.axes, [&](int64_t member) {
          one.send.add(Block::common(*regions, me, *next, member));
        });
        break;
      case Kind::kExchange:
        layout::each_member(at, me, step.axes, [&](int64_t member) {
          one.send.add(Block::common(*regions, me, *next, member));
          receive_from(member);
        });
        break;
      case Kind::kAllGather:
        layout::each_member(at, me, step.axes, receive_from);
        break;
      case Kind::kAllReduce:
      case Kind::kDivide:
        break;
    }
    if (!one.send.is_packed())
      made->pieces_ = std::max(made->pieces_, one.send.total());
    if (!one.receive.is_packed())
      made->parts_ = std::max(made->parts_, one.receive.total());
    if (made->steps_.size() + 1 != plan->steps().size())
      made->between_ = std::max(made->between_, one.count);
    made->steps_.push_back(std::move(one));
    before = step.to;
    regions = std::move(next);
  }
  made->out_count_ = regions->count(me);
  return made;
}

absl::Status Prepared::run(std::byte* out, const std::byte* in,
                           std::optional<absl::Duration> timeout) const {
  if (steps_.empty()) {
    if (in_count_ != 0) std::memcpy(out, in, bytes(in_count_));
    return absl::OkStatus();
  }
  const Deadline deadline =
      timeout.has_value() ? Deadline::after(*timeout) : Deadline::never();
  const Staging staging(*this);
  const std::byte* from = in;
  int64_t count = in_count_;
  for (size_t i = 0; i < steps_.size(); ++i) {
    std::byte* const to = i + 1 == steps_.size() ? out : staging.between(i % 2);
    // One time limit covers all steps.
    if (timeout.has_value())
      timeout = std::max(deadline.remaining(), absl::Nanoseconds(1));
    if (absl::Status status =
            run_step(steps_[i], to, from, count, staging, timeout);
        !status.ok())
      return status;
    from = to;
    count = steps_[i].count;
  }
  return absl::OkStatus();
}

absl::Status Prepared::run_step(const Step& step, std::byte* to,
                                const std::byte* from, int64_t from_count,
                                const Staging& staging,
                                std::optional<absl::Duration> timeout) const {
  const OpOptions options{
      .group = step.group, .timeout = timeout, .label = step.label};
  // Packed memory where the region's own does not have the order.
  std::byte* const pieces = step.send.is_packed() ? nullptr : staging.pieces();
  std::byte* const parts = step.receive.is_packed() ? nullptr : staging.parts();
  switch (step.kind) {
    case Kind::kSlice:
      step.send.pack(to, from, size_);
      return absl::OkStatus();
    case Kind::kFill:
      if (step.count != 0) std::memset(to, 0, bytes(step.count));
      if (step.keeps) step.receive.unpack(from, to, size_);
      return absl::OkStatus();
    case Kind::kDivide:
      divide(to, from, step.count, dtype_, step.divisor);
      return absl::OkStatus();
    case Kind::kAllReduce:
      return all_reduce(view(to, step.count), view(from, from_count), step.op,
                        options)
          .status();
    case Kind::kReduceScatter: {
      if (pieces != nullptr) step.send.pack(pieces, from, size_);
      return reduce_scatter_v(
                 view(to, step.count),
                 view(pieces != nullptr ? pieces : from, step.send.total()),
                 step.send.counts(), step.op, options)
          .status();
    }
    case Kind::kAllGather: {
      const absl::Status status =
          all_gather_v(
              view(parts != nullptr ? parts : to, step.receive.total()),
              view(from, from_count), step.receive.counts(), options)
              .status();
      if (status.ok() && parts != nullptr)
        step.receive.unpack(parts, to, size_);
      return status;
    }
    case Kind::kExchange: {
      if (pieces != nullptr) step.send.pack(pieces, from, size_);
      const absl::Status status =
          all_to_all_single(
              view(parts != nullptr ? parts : to, step.receive.total()),
              view(pieces != nullptr ? pieces : from, step.send.total()),
              step.receive.counts(), step.send.counts(), options)
              .status();
      if (status.ok() && parts != nullptr)
        step.receive.unpack(parts, to, size_);
      return status;
    }
  }
  return absl::OkStatus();
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
