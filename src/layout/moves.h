// Ways from one layout to another: all at once when no partial axis leaves, and
// one axis after the other.
#ifndef DISTWRAP_SRC_LAYOUT_MOVES_H_
#define DISTWRAP_SRC_LAYOUT_MOVES_H_

#include "layout/partials.h"
#include "layout/steps.h"

#include <vector>

namespace distwrap::layout {

// All ways to go on from `begun` to `to`: nothing, a slice, one exchange, or a
// gather behind a slice or an exchange. At least one.
std::vector<Candidate> moves(RegionCache& regions, const Candidate& begun,
                             const Layout& to);

// Appends the one step to `to`, which differs from `plan.at` in one axis; `op`
// reduces the axis if it was partial. False when the step would lose elements.
bool axis_step(Candidate& plan, RegionCache& regions, int axis, PartialOp op,
               const Layout& to);

// The steps that PyTorch takes: one axis after the other, as its placements
// tell. nullopt when a step would lose elements or has no layout.
std::optional<Candidate> pytorch_steps(RegionCache& regions, const Layout& from,
                                       const Layout& to);

// The steps on one axis each that together receive the least, with at most so
// many collectives, if that is less than `below`: the shortest way through all
// layouts. nullopt also when too many ways are as short.
std::optional<Candidate> shortest_steps(RegionCache& regions,
                                        const Layout& from, const Layout& to,
                                        const Partials& partials, int64_t below,
                                        int collectives);

}  // namespace distwrap::layout

#endif  // DISTWRAP_SRC_LAYOUT_MOVES_H_
