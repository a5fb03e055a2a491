// Runs a plan on all ranks of a mesh in one thread, element by element, by the
// regions alone: the slow reference of the executor, and what checks plans.
#ifndef DISTWRAP_TESTS_UNIT_LAYOUT_SIMULATED_PLAN_H_
#define DISTWRAP_TESTS_UNIT_LAYOUT_SIMULATED_PLAN_H_

#include "distwrap/plan.h"
#include "layout/regions.h"

#include <functional>
#include <vector>

namespace distwrap::layout {

// The parts of all ranks, row-major.
using Parts = std::vector<std::vector<double>>;

// Cuts a whole tensor by a layout without partial axes.
Parts cut(const std::vector<double>& whole, const Layout& layout,
          absl::Span<const int64_t> shape);

// The tensor that the parts denote: partial axes reduced. Fails the test when
// ranks that hold an element disagree.
std::vector<double> joined(const Parts& parts, const Layout& layout,
                           absl::Span<const int64_t> shape);

// The parts after the plan. Fails the test when a step needs an element that no
// rank of its group has.
Parts run(const Plan& plan, Parts parts);

// Calls f(flat index) with each element of a rank's region, row-major.
void each_cell(const Regions& regions, absl::Span<const int64_t> shape,
               int64_t rank, const std::function<void(int64_t)>& f);

}  // namespace distwrap::layout

#endif  // DISTWRAP_TESTS_UNIT_LAYOUT_SIMULATED_PLAN_H_
