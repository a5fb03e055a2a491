#include "base/nearest.h"

#include "sdk/spelling.h"

#include <absl/strings/match.h>

#include <utility>

namespace distwrap::base {

std::string nearest(absl::string_view name,
                    const std::vector<std::string>& known) {
  const std::string* best = nullptr;
  std::pair<bool, size_t> best_cost;
  for (const std::string& candidate : known) {
    const bool begins = !name.empty() && absl::StartsWith(candidate, name);
    const std::pair<bool, size_t> cost(
        !begins, dw_sdk::edit_distance({name.data(), name.size()}, candidate));
    if (best != nullptr && cost >= best_cost) continue;
    best = &candidate;
    best_cost = cost;
  }
  return best == nullptr ? std::string() : *best;
}

}  // namespace distwrap::base
