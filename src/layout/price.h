// The estimated cost of a plan.
#ifndef DISTWRAP_SRC_LAYOUT_PRICE_H_
#define DISTWRAP_SRC_LAYOUT_PRICE_H_

#include "layout/steps.h"

#include <cstdint>

namespace distwrap::layout {

// The time of the steps in nanoseconds, by the prices of the options. Integers,
// so that every rank computes the same.
int64_t price(const Candidate& plan, int64_t itemsize,
              const PlanOptions& options);

// Makes each step one of two levels where hosts make that cheaper.
void choose_levels(Candidate& plan, int64_t itemsize,
                   const PlanOptions& options);

// The elements that the host with the most gets from other hosts in a step from
// `from`. An element that several of its ranks get counts for each of them.
int64_t into_host(RegionCache& regions, const Layout& from,
                  const PlanStep& step, const PlanOptions& options);

}  // namespace distwrap::layout

#endif  // DISTWRAP_SRC_LAYOUT_PRICE_H_
