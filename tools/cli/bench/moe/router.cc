#include "bench/moe/router.h"

#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_split.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <numeric>
#include <random>

namespace distwrap::bench {
namespace {

size_t at(int64_t i) { return static_cast<size_t>(i); }

// The groups of a token, drawn without repetition.
std::vector<uint8_t> draw_groups(const RouterSpec& spec,
                                 std::mt19937_64& random) {
  std::vector<int64_t> all(at(spec.groups)), chosen;
  std::iota(all.begin(), all.end(), 0);
  std::sample(all.begin(), all.end(), std::back_inserter(chosen),
              spec.most_groups, random);
  std::vector<uint8_t> open(at(spec.groups), 0);
  for (const int64_t group : chosen) open[at(group)] = 1;
  return open;
}

}  // namespace

std::vector<int64_t> draw_experts(const RouterSpec& spec, int rank) {
  std::mt19937_64 random(static_cast<uint64_t>(rank) + 1);
  std::vector<double> weights;
  for (int64_t e = 0; e < spec.experts; ++e)
    weights.push_back(std::pow(static_cast<double>(e + 1), -spec.skew));
  std::discrete_distribution<int64_t> expert(weights.begin(), weights.end());
  const int64_t of_group = spec.groups > 0 ? spec.experts / spec.groups : 1;
  std::vector<int64_t> ids;
  for (int64_t t = 0; t < spec.tokens; ++t) {
    std::vector<uint8_t> open;
    if (spec.groups > 0) open = draw_groups(spec, random);
    for (int64_t k = 0; k < spec.topk; ++k) {
      const auto taken = [&](int64_t id) {
        const auto token = ids.end() - k;
        return std::find(token, ids.end(), id) != ids.end() ||
               (!open.empty() && open[at(id / of_group)] == 0);
      };
      // Draws again, which keeps the proportions; where that takes long, the
      // next expert that is left.
      int64_t id = expert(random);
      for (int tries = 0; taken(id); ++tries)
        id = tries < 200 ? expert(random) : (id + 1) % spec.experts;
      ids.push_back(id);
    }
  }
  return ids;
}

absl::StatusOr<std::vector<std::vector<int64_t>>> read_experts(
    const std::string& path, const RouterSpec& spec, int ranks) {
  std::ifstream file(path);
  if (!file)
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": the file cannot be read"));
  std::vector<std::vector<int64_t>> all(at(ranks));
  const int64_t wanted = ranks * spec.tokens;
  std::string line;
  int64_t number = 0;
  const auto refuse = [&](const std::string& what) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ":", number, ": ", what));
  };
  while (std::getline(file, line)) {
    ++number;
    if (number > wanted)
      return refuse(absl::StrCat("the file has more than the ", wanted,
                                 " tokens of ", ranks, " ranks"));
    std::vector<int64_t>& ids = all[at((number - 1) / spec.tokens)];
    int64_t slots = 0;
    for (const absl::string_view word :
         absl::StrSplit(line, absl::ByAnyChar(" \t\r"), absl::SkipEmpty())) {
      int64_t id;
      if (!absl::SimpleAtoi(word, &id) || id < -1 || id >= spec.experts)
        return refuse(absl::StrCat("'", word, "' is no expert: -1 to ",
                                   spec.experts - 1));
      ids.push_back(id);
      ++slots;
    }
    if (slots != spec.topk)
      return refuse(absl::StrCat(slots, " ids in place of ", spec.topk));
  }
  if (number < wanted)
    return refuse(absl::StrCat("the file ends after ", number, " of the ",
                               wanted, " tokens of ", ranks, " ranks"));
  return all;
}

}  // namespace distwrap::bench
