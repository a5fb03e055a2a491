#include "base/nearest.h"

#include <absl/strings/match.h>

#include <algorithm>
#include <numeric>
#include <utility>

namespace distwrap::base {

size_t edit_distance(absl::string_view a, absl::string_view b) {
  // One row of the table: the edits from the letters of `a` so far to each
  // prefix of `b`.
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i + 1;
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t changed = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({changed, row[j] + 1, diagonal + 1});
    }
  }
  return row.back();
}

std::string nearest(absl::string_view name,
                    const std::vector<std::string>& known) {
  const std::string* best = nullptr;
  std::pair<bool, size_t> best_cost;
  for (const std::string& candidate : known) {
    const bool begins = !name.empty() && absl::StartsWith(candidate, name);
    const std::pair<bool, size_t> cost(!begins, edit_distance(name, candidate));
    if (best != nullptr && cost >= best_cost) continue;
    best = &candidate;
    best_cost = cost;
  }
  return best == nullptr ? std::string() : *best;
}

}  // namespace distwrap::base
