// A plan beside the one that PyTorch would follow.
//
// Threads: pure functions.
#ifndef DISTWRAP_TOOLS_CLI_PLAN_COMPARISON_H_
#define DISTWRAP_TOOLS_CLI_PLAN_COMPARISON_H_

#include "distwrap/plan.h"
#include "json_value.h"

#include <string>

namespace distwrap::cli {

struct PlanComparison {
  PlanRef chosen;
  PlanRef pytorch;
  bool backward = false;  // plans of the gradient
};

// The text of the plan, then a table of both.
std::string to_text(const PlanComparison& plans);
JsonObject to_json(const PlanComparison& plans);

}  // namespace distwrap::cli

#endif  // DISTWRAP_TOOLS_CLI_PLAN_COMPARISON_H_
