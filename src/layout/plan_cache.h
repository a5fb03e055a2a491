// The plans that a thread has made last. To plan again costs a look into its
// table, without a lock; each slot keeps the latest plan that falls into it.
//
// Threads: each has a table of its own. Ownership: the table shares its plans.
#ifndef DISTWRAP_SRC_LAYOUT_PLAN_CACHE_H_
#define DISTWRAP_SRC_LAYOUT_PLAN_CACHE_H_

#include "distwrap/plan.h"

#include <absl/types/span.h>

#include <cstdint>

namespace distwrap::layout {

// The place for the plan of these arguments in the thread's table.
PlanRef& plan_slot(absl::Span<const int64_t> shape, int64_t itemsize,
                   const Layout& source, const Layout& target,
                   const PlanOptions& options);

// Whether a slot has the plan of these arguments.
bool holds(const PlanRef& slot, absl::Span<const int64_t> shape,
           int64_t itemsize, const Layout& source, const Layout& target,
           const PlanOptions& options);

}  // namespace distwrap::layout

#endif  // DISTWRAP_SRC_LAYOUT_PLAN_CACHE_H_
