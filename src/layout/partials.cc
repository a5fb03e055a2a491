#include "layout/partials.h"

#include "base/error.h"
#include "layout/steps.h"

#include <absl/strings/str_cat.h>

#include <string>
#include <utility>

namespace distwrap::layout {
namespace {

using Kind = Placement::Kind;

absl::Status refuse(std::string what, std::string next_step) {
  return base::make_error({.reason = Reason::kPartialTarget,
                           .what = std::move(what),
                           .next_step = std::move(next_step)});
}

}  // namespace

absl::StatusOr<Partials> partials_of(const Layout& source,
                                     const Layout& target) {
  Partials found;
  bool sums = false;
  for (size_t a = 0; a < source.placements().size(); ++a) {
    const Placement &s = source.placements()[a], &t = target.placements()[a];
    const bool is = s.kind == Kind::kPartial,
               will_be = t.kind == Kind::kPartial;
    // An axis of one coordinate has nothing to reduce or to divide.
    if ((!is && !will_be) || source.mesh().sizes[a] == 1) continue;
    if (is && will_be) {
      if (s.op == t.op && s.norm == t.norm) continue;
      return refuse(absl::StrCat("axis ", a, " would go from ",
                                 placement_text(s), " to ", placement_text(t)),
                    "reduce it first, then make it partial");
    }
    if (is) {
      found.leaving.push_back(static_cast<int>(a));
      if (s.op == PartialOp::kAvg)
        found.divisor *= source.mesh().sizes[a];
      else
        sums = true;
      found.op = s.op;
      found.norm = s.norm;
      continue;
    }
    const bool exact = t.op == PartialOp::kSum ||
                       (s.kind == Kind::kReplicate &&
                        (t.op == PartialOp::kAvg || t.op == PartialOp::kMin ||
                         t.op == PartialOp::kMax));
    if (!exact)
      return refuse(absl::StrCat("axis ", a, " cannot go from ",
                                 placement_text(s), " to ", placement_text(t)),
                    "ask for P(sum), or keep the placement");
    found.filled.push_back(static_cast<int>(a));
    found.fill_op = t.op;
  }
  // Averages alone are the engine's own reduction; beside sums they travel as
  // sums and are divided at the end.
  if (found.divisor != 1 && sums) {
    found.op = PartialOp::kSum;
  } else if (found.divisor != 1) {
    found.op = PartialOp::kAvg;
    found.divisor = 1;
  }
  return found;
}

const Layout* before_fill(const Layout& source, const Layout& target,
                          const std::vector<int>& filled,
                          std::optional<int> dim, bool outside) {
  Draft draft(target);
  const auto cut = [&](int axis, int of, int64_t factor) {
    outside ? draft.cut_outside(axis, of, factor) : draft.cut(axis, of, factor);
  };
  for (const int axis : filled) {
    const Placement& now = source.placements()[static_cast<size_t>(axis)];
    const bool sums =
        target.placements()[static_cast<size_t>(axis)].op == PartialOp::kSum;
    if (dim.has_value() && sums)
      cut(axis, *dim, 1);
    else if (now.kind == Kind::kShard)
      cut(axis, now.dim, now.factor);
    else
      draft.replicate(axis);
  }
  return draft.make();
}

}  // namespace distwrap::layout
