// Ways from one layout to another when no partial axis leaves.
#ifndef DISTWRAP_SRC_LAYOUT_MOVES_H_
#define DISTWRAP_SRC_LAYOUT_MOVES_H_

#include "layout/steps.h"

#include <vector>

namespace distwrap::layout {

// All ways to go on from `begun` to `to`: nothing, a slice, one exchange, or a
// gather behind a slice or an exchange. At least one.
std::vector<Candidate> moves(RegionCache& regions, const Candidate& begun,
                             const Layout& to);

// The steps that PyTorch takes: one axis after the other, as its placements
// tell. nullopt when a step would lose elements or has no layout.
std::optional<Candidate> pytorch_steps(RegionCache& regions, const Layout& from,
                                       const Layout& to);

}  // namespace distwrap::layout

#endif  // DISTWRAP_SRC_LAYOUT_MOVES_H_
