// Steps on one axis of the mesh, and the shortest way of such steps.
#include "layout/moves.h"

#include <map>
#include <tuple>
#include <utility>
#include <vector>

namespace distwrap::layout {
namespace {

using Kind = Placement::Kind;

// Ways that are followed at most, times the ranks whose regions they compare.
constexpr int64_t kMostWork = int64_t{1} << 16;

bool is_partial(const Layout& layout, int axis) {
  return layout.placements()[static_cast<size_t>(axis)].kind == Kind::kPartial;
}

// The layouts that differ from `layout` in this axis and that may lie on a way
// to `to`. An axis becomes partial only where `to` has it so, and then stays.
std::vector<const Layout*> neighbours(const Layout& layout, int axis, int dims,
                                      const Layout& to) {
  std::vector<const Layout*> found;
  const auto add = [&](Draft draft) {
    const Layout* const made = draft.make();
    if (made != nullptr && made != &layout) found.push_back(made);
  };
  const bool is = is_partial(layout, axis), wanted = is_partial(to, axis);
  if (is && wanted) return found;
  add(Draft(layout).replicate(axis));
  for (int d = 0; d < dims; ++d) add(Draft(layout).cut(axis, d));
  if (wanted)
    add(Draft(layout).partial(axis,
                              to.placements()[static_cast<size_t>(axis)].op));
  return found;
}

// Whether ranks that hold values by `at` hold what `to` wants.
bool is_reached(RegionCache& regions, const Layout& at, const Layout& to) {
  for (int a = 0; a < static_cast<int>(to.placements().size()); ++a)
    if (to.mesh().sizes[static_cast<size_t>(a)] > 1 &&
        is_partial(at, a) != is_partial(to, a))
      return false;
  return same(regions.of(at), regions.of(to), to.ranks());
}

}  // namespace

bool axis_step(Candidate& plan, RegionCache& regions, int axis, PartialOp op,
               const Layout& to) {
  const std::vector<int> along = {axis};
  const auto at = static_cast<size_t>(axis);
  const Placement from = plan.at->placements()[at];
  const Placement& target = to.placements()[at];
  if (target.kind == Kind::kPartial)
    // Pieces with zeros around them are a sum, and nothing else.
    return (target.op == PartialOp::kSum || from.kind == Kind::kReplicate) &&
           fill(plan, regions, target.op, to);
  if (from.kind == Kind::kPartial) {
    if (target.kind == Kind::kReplicate) {
      all_reduce(plan, regions, along, op, to);
      return true;
    }
    const bool divides = gathers(regions, to, *plan.at, along);
    reduce_scatter(plan, regions, along, op, to);
    return divides;
  }
  if (from.kind != Kind::kShard) {
    if (lacking(regions, *plan.at, to) != 0) return false;
    slice(plan, regions, to);
    return true;
  }
  if (target.kind == Kind::kReplicate) {
    const bool whole = gathers(regions, *plan.at, to, along);
    all_gather(plan, regions, along, to);
    return whole;
  }
  for (const int crossed : crossed_axes(regions, *plan.at, to))
    if (crossed != axis) return false;
  exchange(plan, regions, to);
  return true;
}

std::optional<Candidate> shortest_steps(RegionCache& regions,
                                        const Layout& from, const Layout& to,
                                        const Partials& partials, int64_t below,
                                        int collectives) {
  // Ids order the layouts equally in all processes.
  using Place = std::tuple<int64_t, int, uint64_t>;
  const auto dims = static_cast<int>(regions.shape().size());
  std::map<Place, Candidate> open;
  const auto add = [&](Candidate way) {
    const Place place(way.received(), way.collectives(), way.at->id());
    if (std::get<0>(place) < below && std::get<1>(place) <= collectives)
      open.emplace(place, std::move(way));
  };
  // By layout: the fewest collectives of the ways that reached it so far.
  std::map<uint64_t, int> visited;
  Candidate begun;
  begun.at = &from;
  add(std::move(begun));
  for (int64_t work = 0; !open.empty() && work < kMostWork;
       work += to.ranks()) {
    const auto first = open.extract(open.begin());
    const Candidate& way = first.mapped();
    const int fewest = std::get<1>(first.key());
    const auto there = visited.try_emplace(way.at->id(), fewest);
    if (!there.second && there.first->second <= fewest) continue;
    there.first->second = fewest;
    if (is_reached(regions, *way.at, to)) return way;
    for (int axis = 0; axis < static_cast<int>(to.mesh().sizes.size());
         ++axis) {
      if (to.mesh().sizes[static_cast<size_t>(axis)] == 1) continue;
      for (const Layout* const next : neighbours(*way.at, axis, dims, to)) {
        Candidate longer = way;
        if (!is_partial(*way.at, axis) && !is_partial(*next, axis) &&
            lacking(regions, *way.at, *next) == 0)
          slice(longer, regions, *next);
        else if (!axis_step(longer, regions, axis, partials.op, *next))
          continue;
        add(std::move(longer));
      }
    }
  }
  return std::nullopt;
}

}  // namespace distwrap::layout
