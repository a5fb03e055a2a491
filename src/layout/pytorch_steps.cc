// The steps of PyTorch's redistribute: one axis of the mesh after the other.
#include "layout/moves.h"

#include <optional>
#include <vector>

namespace distwrap::layout {
namespace {

using Kind = Placement::Kind;

// The axes before `end` that cut `dim`.
std::vector<size_t> cutting(const std::vector<Placement>& placements, int dim,
                            size_t end) {
  std::vector<size_t> axes;
  for (size_t a = 0; a < end; ++a)
    if (placements[a].kind == Kind::kShard && placements[a].dim == dim)
      axes.push_back(a);
  return axes;
}

}  // namespace

std::optional<Candidate> pytorch_steps(RegionCache& regions, const Layout& from,
                                       const Layout& to) {
  if (!from.order().empty() || !to.order().empty()) return std::nullopt;
  Candidate plan;
  plan.at = &from;
  std::vector<Placement> now = from.placements();
  const std::vector<Placement>& wanted = to.placements();
  bool fits = true;
  const auto change = [&](size_t axis, const Placement& target) {
    const Placement before = now[axis];
    if (before == target) return;
    now[axis] = target;
    const auto next = Layout::make(from.mesh(), now);
    fits = fits && next.ok() &&
           axis_step(plan, regions, static_cast<int>(axis), before.op, **next);
  };
  bool is_cut = false;
  for (size_t a = 0; a < now.size(); ++a)
    is_cut |= now[a].kind == Kind::kShard && from.mesh().sizes[a] > 1;
  // From the innermost axis on: a cut whose outer cuts are not yet those of the
  // target is replicated first.
  for (size_t a = now.size(); is_cut && fits && a-- > 0;) {
    Placement target = wanted[a];
    if (target.kind == Kind::kShard &&
        cutting(now, target.dim, a) != cutting(wanted, target.dim, a))
      target = Placement::replicate();
    change(a, target);
  }
  for (size_t a = 0; fits && a < now.size(); ++a) change(a, wanted[a]);
  if (!fits) return std::nullopt;
  return plan;
}

}  // namespace distwrap::layout
