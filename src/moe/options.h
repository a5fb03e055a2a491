// The check of a plan's arguments, before anything is sent.
#ifndef DISTWRAP_SRC_MOE_OPTIONS_H_
#define DISTWRAP_SRC_MOE_OPTIONS_H_

#include "distwrap/moe_plan.h"
#include "distwrap/status.h"
#include "moe/plan_parts.h"

#include <absl/types/span.h>

#include <cstdint>
#include <optional>

namespace distwrap::moe {

// The fault of options for a group of `ranks` ranks; nullopt: none.
std::optional<ErrorInfo> find_fault(const MoeOptions& options, int ranks);
// The fault of a routing, apart from the values of its ids.
std::optional<ErrorInfo> find_fault(TensorView routing,
                                    const MoeOptions& options);

// Fills in what checked options say.
void apply_options(const MoeOptions& options, int rank,
                   absl::Span<const int32_t> host_of, PlanParts* parts);
// Reads a checked routing.
RoutingFault read_routing(TensorView routing, int64_t experts, Routing* out);

// A number that is equal for equal options, and differs for others but with a
// chance of 2^-64.
uint64_t hash_of(const MoeOptions& options, absl::Span<const int32_t> host_of);

}  // namespace distwrap::moe

#endif  // DISTWRAP_SRC_MOE_OPTIONS_H_
