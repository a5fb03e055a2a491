#include "layout/peers.h"

#include <algorithm>

namespace distwrap::layout {

PlanStep::Exchange exchange_kind(const Regions& from, const Regions& to,
                                 const Coordinates& at,
                                 absl::Span<const int> axes) {
  bool permutes = true, all = true;
  for (int64_t rank = 0; rank < at.ranks(); ++rank) {
    int sends = 0, receives = 0, members = 0;
    each_member(at, rank, axes, [&](int64_t member) {
      if (member == rank) return;
      ++members;
      sends += common(from, rank, to, member) != 0 ? 1 : 0;
      receives += common(from, member, to, rank) != 0 ? 1 : 0;
    });
    permutes &= sends <= 1 && receives <= 1;
    all &= sends == members && receives == members;
  }
  // Two ranks that swap blocks do both.
  if (permutes && !all) return PlanStep::Exchange::kPermute;
  return all ? PlanStep::Exchange::kAllToAll : PlanStep::Exchange::kFetch;
}

}  // namespace distwrap::layout
