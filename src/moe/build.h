// Makes a plan together with the other ranks of a group.
#ifndef DISTWRAP_SRC_MOE_BUILD_H_
#define DISTWRAP_SRC_MOE_BUILD_H_

#include "distwrap/moe_plan.h"
#include "moe/exchange.h"
#include "moe/plan_state.h"

#include <absl/status/statusor.h>

#include <memory>

namespace distwrap::moe {

// `reuse`: the state of a plan that nobody uses any more, or null.
absl::StatusOr<std::shared_ptr<PlanState>> build(
    CallPlace place, TensorView routing, const MoeOptions& options,
    std::shared_ptr<PlanState> reuse);

}  // namespace distwrap::moe

#endif  // DISTWRAP_SRC_MOE_BUILD_H_
