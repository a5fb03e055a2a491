// The arguments of `distwrap plan`, read and checked.
//
// Threads: pure functions.
#ifndef DISTWRAP_TOOLS_CLI_PLAN_WISH_H_
#define DISTWRAP_TOOLS_CLI_PLAN_WISH_H_

#include "command_line.h"
#include "distwrap/plan.h"

#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>

#include <cstdint>
#include <string>
#include <vector>

namespace distwrap::cli {

struct PlanWish {
  std::vector<int64_t> shape;
  int64_t itemsize = 4;
  const Layout* from = nullptr;
  const Layout* to = nullptr;
  PlanOptions options;
  bool backward = false;  // the plan of the gradient
};

// The error begins with the option that is wrong.
absl::StatusOr<PlanWish> plan_wish(const Typed& typed);

// "2x4" as {2, 4}, and "dp=2,tp=4" with names.
absl::StatusOr<MeshShape> parse_mesh(absl::string_view text);

}  // namespace distwrap::cli

#endif  // DISTWRAP_TOOLS_CLI_PLAN_WISH_H_
