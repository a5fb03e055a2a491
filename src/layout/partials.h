// The part of a plan that partial axes ask for.
#ifndef DISTWRAP_SRC_LAYOUT_PARTIALS_H_
#define DISTWRAP_SRC_LAYOUT_PARTIALS_H_

#include "distwrap/plan.h"

#include <absl/status/statusor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace distwrap::layout {

struct Partials {
  std::vector<int> leaving;        // partial in the source alone: to be reduced
  std::vector<int> filled;         // partial in the target alone
  PartialOp op = PartialOp::kSum;  // reduces the leaving axes
  PartialOp fill_op = PartialOp::kSum;  // the last filled axis's, for the text
  double norm = 0;                      // used by kNorm, as Placement
  int64_t divisor = 1;                  // for averages that travel as a sum
};

// The operation as layouts and plans write it: "sum", "norm2".
std::string partial_text(PartialOp op, double norm);

// kPartialTarget for axes that cannot become partial in this way.
absl::StatusOr<Partials> partials_of(const Layout& source,
                                     const Layout& target);

// The target with its `filled` axes as the source has them, cutting inside or
// outside of the other cuts. With a `dim`, axes that become partial sums cut
// that dimension instead: each rank then moves a share only, and the rest
// becomes zeros. Null when no layout has these cuts.
const Layout* before_fill(const Layout& source, const Layout& target,
                          const std::vector<int>& filled,
                          std::optional<int> dim, bool outside);

}  // namespace distwrap::layout

#endif  // DISTWRAP_SRC_LAYOUT_PARTIALS_H_
