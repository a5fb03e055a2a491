// The ranks of a group that is part of a mesh.
#ifndef DISTWRAP_SRC_LAYOUT_PEERS_H_
#define DISTWRAP_SRC_LAYOUT_PEERS_H_

#include "distwrap/plan.h"
#include "layout/regions.h"

#include <absl/types/span.h>

#include <cstdint>

namespace distwrap::layout {

// Calls f(rank) with each rank of the mesh that differs from `rank` at most on
// `axes`, in the order of their coordinates: `rank` itself is among them.
template <class F>
void each_member(const Coordinates& at, int64_t rank,
                 absl::Span<const int> axes, const F& f) {
  if (axes.empty()) {
    f(rank);
    return;
  }
  const int axis = axes.front();
  const int64_t base = rank - at.of(rank, axis) * at.stride(axis);
  for (int64_t i = 0; i < at.size(axis); ++i)
    each_member(at, base + i * at.stride(axis), axes.subspan(1), f);
}

// The kind of an exchange within groups along `axes`.
PlanStep::Exchange exchange_kind(const Regions& from, const Regions& to,
                                 const Coordinates& at,
                                 absl::Span<const int> axes);

}  // namespace distwrap::layout

#endif  // DISTWRAP_SRC_LAYOUT_PEERS_H_
