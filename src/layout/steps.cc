#include "layout/steps.h"

#include "layout/peers.h"

#include <algorithm>

namespace distwrap::layout {
namespace {

using Kind = PlanStep::Kind;

void append(Candidate& plan, PlanStep step, RegionCache& regions,
            const Layout& to) {
  step.to = &to;
  step.largest = regions.of(to).largest();
  std::sort(step.axes.begin(), step.axes.end());
  plan.steps.push_back(std::move(step));
  plan.at = &to;
}

// The dimensions that `axes` cut by the layout.
std::vector<int> dims_of(const Layout& layout, absl::Span<const int> axes) {
  std::vector<int> dims;
  for (int d = 0; d < layout.dims(); ++d)
    for (const Layout::Cut& cut : layout.cuts(d))
      if (std::find(axes.begin(), axes.end(), cut.axis) != axes.end() &&
          (dims.empty() || dims.back() != d))
        dims.push_back(d);
  return dims;
}

}  // namespace

const Regions& RegionCache::of(const Layout& layout) {
  std::unique_ptr<Regions>& made = known_[&layout];
  if (made == nullptr) made = std::make_unique<Regions>(layout, shape_);
  return *made;
}

int64_t Candidate::received() const {
  int64_t sum = 0;
  for (const PlanStep& step : steps) sum += step.received;
  return sum;
}

int Candidate::collectives() const {
  return static_cast<int>(
      std::count_if(steps.begin(), steps.end(),
                    [](const PlanStep& step) { return !step.axes.empty(); }));
}

int64_t Candidate::between() const {
  int64_t before = 0, most = 0;
  for (size_t i = 0; i < steps.size(); ++i) {
    const int64_t after = i + 1 == steps.size() ? 0 : steps[i].largest;
    most = std::max(most, before + after);
    before = after;
  }
  return most;
}

Draft::Draft(const Layout& layout)
    : mesh_(layout.mesh()), placements_(layout.placements()) {
  for (int d = 0; d < layout.dims(); ++d) {
    order_.emplace_back();
    for (const Layout::Cut& cut : layout.cuts(d))
      order_.back().push_back(cut.axis);
  }
}

void Draft::forget(int axis) {
  for (std::vector<int>& axes : order_)
    axes.erase(std::remove(axes.begin(), axes.end(), axis), axes.end());
}

Draft& Draft::cut(int axis, int dim, int64_t factor) {
  forget(axis);
  if (dim >= static_cast<int>(order_.size()))
    order_.resize(static_cast<size_t>(dim) + 1);
  order_[static_cast<size_t>(dim)].push_back(axis);
  placements_[static_cast<size_t>(axis)] = Placement::shard(dim, factor);
  return *this;
}

Draft& Draft::cut_outside(int axis, int dim, int64_t factor) {
  cut(axis, dim, factor);
  std::vector<int>& axes = order_[static_cast<size_t>(dim)];
  std::rotate(axes.begin(), axes.end() - 1, axes.end());
  return *this;
}

Draft& Draft::replicate(int axis) {
  forget(axis);
  placements_[static_cast<size_t>(axis)] = Placement::replicate();
  return *this;
}

Draft& Draft::partial(int axis, PartialOp op) {
  forget(axis);
  placements_[static_cast<size_t>(axis)] = Placement::partial(op);
  return *this;
}

const Layout* Draft::make() const {
  ShardOrder order;
  for (size_t d = 0; d < order_.size(); ++d) {
    bool strided = false;
    for (const int axis : order_[d])
      strided |= placements_[static_cast<size_t>(axis)].factor != 1;
    const bool sorted = std::is_sorted(order_[d].begin(), order_[d].end());
    // A strided cut beside an order has no layout.
    if (strided && !sorted) return nullptr;
    if (!strided && !sorted) order[static_cast<int>(d)] = order_[d];
  }
  const auto made = Layout::make(mesh_, placements_, order);
  return made.ok() ? *made : nullptr;
}

int64_t group_size(const Layout& layout, absl::Span<const int> axes) {
  int64_t size = 1;
  for (const int axis : axes)
    size *= layout.mesh().sizes[static_cast<size_t>(axis)];
  return size;
}

void slice(Candidate& plan, RegionCache& regions, const Layout& to) {
  if (plan.at == &to) return;
  append(plan, {.kind = Kind::kSlice}, regions, to);
}

void reduce_scatter(Candidate& plan, RegionCache& regions,
                    std::vector<int> axes, PartialOp op, const Layout& to) {
  const int64_t n = group_size(to, axes);
  PlanStep step{.kind = Kind::kReduceScatter, .op = op};
  step.received = (n - 1) * regions.of(to).largest();
  step.dims = dims_of(to, axes);
  step.axes = std::move(axes);
  append(plan, std::move(step), regions, to);
}

void all_reduce(Candidate& plan, RegionCache& regions, std::vector<int> axes,
                PartialOp op, const Layout& to) {
  const int64_t n = group_size(to, axes);
  const int64_t count = regions.of(to).largest();
  PlanStep step{.kind = Kind::kAllReduce, .axes = std::move(axes), .op = op};
  step.received = 2 * (n - 1) * count / n;
  append(plan, std::move(step), regions, to);
}

void all_gather(Candidate& plan, RegionCache& regions, std::vector<int> axes,
                const Layout& to) {
  PlanStep step{.kind = Kind::kAllGather};
  step.dims = dims_of(*plan.at, axes);
  step.received = lacking(regions, *plan.at, to);
  step.axes = std::move(axes);
  append(plan, std::move(step), regions, to);
}

void exchange(Candidate& plan, RegionCache& regions, const Layout& to) {
  PlanStep step{.kind = Kind::kExchange};
  step.axes = crossed_axes(regions, *plan.at, to);
  step.received = lacking(regions, *plan.at, to);
  append(plan, std::move(step), regions, to);
}

int64_t lacking(RegionCache& regions, const Layout& from, const Layout& to) {
  const Regions &x = regions.of(from), &y = regions.of(to);
  int64_t most = 0;
  for (int64_t rank = 0; rank < to.ranks(); ++rank)
    most = std::max(most, y.count(rank) - common(x, rank, y, rank));
  return most;
}

bool fill(Candidate& plan, RegionCache& regions, PartialOp op,
          const Layout& to) {
  const Regions &x = regions.of(*plan.at), &y = regions.of(to);
  for (int64_t rank = 0; rank < to.ranks(); ++rank)
    if (x.count(rank) != common(x, rank, y, rank)) return false;
  append(plan, {.kind = Kind::kFill, .op = op}, regions, to);
  return true;
}

bool gathers(RegionCache& regions, const Layout& from, const Layout& to,
             absl::Span<const int> axes) {
  // The parts of a group are disjoint, so together they are the whole when they
  // lie inside of it and have as many elements.
  const Regions &x = regions.of(from), &y = regions.of(to);
  const Coordinates at(to.mesh().sizes);
  for (int64_t rank = 0; rank < at.ranks(); ++rank) {
    int64_t sum = 0;
    bool inside = true;
    each_member(at, rank, axes, [&](int64_t member) {
      const int64_t part = x.count(member);
      inside &= part == common(x, member, y, rank);
      sum += part;
    });
    if (!inside || sum != y.count(rank)) return false;
  }
  return true;
}

std::vector<int> crossed_axes(RegionCache& regions, const Layout& from,
                              const Layout& to) {
  const Regions &x = regions.of(from), &y = regions.of(to);
  const Coordinates at(to.mesh().sizes);
  std::vector<int> crossed;
  for (int d = 0; d < from.dims(); ++d) {
    const std::vector<Layout::Cut>& cuts = from.cuts(d);
    std::vector<int> others;
    for (const Layout::Cut& cut : cuts) others.push_back(cut.axis);
    for (size_t i = 0; i < cuts.size(); ++i) {
      // The ranks with this rank's coordinate on the axis hold this together.
      std::vector<int> rest = others;
      rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(i));
      for (int64_t rank = 0; rank < at.ranks(); ++rank) {
        if (y.count(rank) == 0) continue;
        int64_t held = 0;
        each_member(at, rank, rest, [&](int64_t member) {
          held += common(x.set(member, d), y.set(rank, d));
        });
        if (held == y.set(rank, d).count()) continue;
        crossed.push_back(cuts[i].axis);
        break;
      }
    }
  }
  std::sort(crossed.begin(), crossed.end());
  return crossed;
}

}  // namespace distwrap::layout
