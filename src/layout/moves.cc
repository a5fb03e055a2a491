#include "layout/moves.h"

#include <algorithm>

namespace distwrap::layout {
namespace {

bool cuts(const Layout& layout, int axis) {
  return layout.placements()[static_cast<size_t>(axis)].kind ==
         Placement::Kind::kShard;
}

// The cuts of `to` with those of `axes` in `from` inside of them; null when no
// layout has them.
const Layout* before_gather(const Layout& from, const Layout& to,
                            absl::Span<const int> axes) {
  Draft draft(to);
  for (int d = 0; d < from.dims(); ++d)
    for (const Layout::Cut& cut : from.cuts(d))
      if (std::find(axes.begin(), axes.end(), cut.axis) != axes.end())
        draft.cut(cut.axis, d, cut.factor);
  return draft.make();
}

}  // namespace

std::vector<Candidate> moves(RegionCache& regions, const Candidate& begun,
                             const Layout& to) {
  const Layout& from = *begun.at;
  std::vector<Candidate> found;
  if (lacking(regions, from, to) == 0) {
    found.push_back(begun);
    if (same(regions.of(from), regions.of(to), to.ranks()))
      found.back().at = &to;
    else
      slice(found.back(), regions, to);
    return found;
  }
  found.push_back(begun);
  exchange(found.back(), regions, to);
  std::vector<int> gathered;
  for (int a = 0; a < static_cast<int>(to.mesh().sizes.size()); ++a)
    if (cuts(from, a) && !cuts(to, a)) gathered.push_back(a);
  if (gathered.empty()) return found;
  const Layout* const parts = before_gather(from, to, gathered);
  if (parts == nullptr || !gathers(regions, *parts, to, gathered)) return found;
  Candidate way = begun;
  if (same(regions.of(from), regions.of(*parts), to.ranks()))
    way.at = parts;
  else if (lacking(regions, from, *parts) == 0)
    slice(way, regions, *parts);
  else
    exchange(way, regions, *parts);
  all_gather(way, regions, gathered, to);
  found.push_back(std::move(way));
  return found;
}

}  // namespace distwrap::layout
