#include "group/rank_map.h"

#include <algorithm>
#include <numeric>

namespace distwrap::group {
namespace {

// A table over all ranks from the smallest to the largest may be this many
// times larger than the list.
constexpr int64_t kSpread = 4;

// Whether all neighbours differ by `step`. The loop works in blocks of a fixed
// size, which the compiler turns into vector instructions.
bool in_steps(const std::vector<int>& ranks, int step) {
  constexpr size_t kBlock = 64;
  size_t i = 1;
  for (; i + kBlock <= ranks.size(); i += kBlock) {
    const int* const here = ranks.data() + i;
    const int* const before = here - 1;
    int off = 0;
    for (size_t j = 0; j < kBlock; ++j) off |= (here[j] - before[j]) ^ step;
    if (off != 0) return false;
  }
  for (; i < ranks.size(); ++i)
    if (ranks[i] - ranks[i - 1] != step) return false;
  return true;
}

}  // namespace

RankMap::RankMap(const std::vector<int>& ranks) : ranks_(ranks) {
  const size_t n = ranks.size();
  if (n == 0) return;
  first_ = ranks[0];
  if (n == 1) return;
  step_ = ranks[1] - ranks[0];
  if (in_steps(ranks, step_)) return;
  if (std::is_sorted(ranks.begin(), ranks.end())) {
    form_ = Form::kAscending;
    return;
  }
  int least = ranks[0], most = ranks[0];
  for (const int rank : ranks) {
    least = std::min(least, rank);
    most = std::max(most, rank);
  }
  const int64_t range = int64_t{most} - least + 1;
  if (range <= kSpread * static_cast<int64_t>(n)) {
    form_ = Form::kDense;
    first_ = least;
    table_.assign(static_cast<size_t>(range), -1);
    for (size_t k = 0; k < n; ++k)
      table_[static_cast<size_t>(ranks[k] - first_)] = static_cast<int32_t>(k);
    return;
  }
  form_ = Form::kSorted;
  table_.resize(n);
  std::iota(table_.begin(), table_.end(), 0);
  std::sort(table_.begin(), table_.end(), [&](int32_t a, int32_t b) {
    return ranks_[static_cast<size_t>(a)] < ranks_[static_cast<size_t>(b)];
  });
}

int RankMap::find(int rank) const {
  const auto n = static_cast<int64_t>(ranks_.size());
  switch (form_) {
    case Form::kSteps: {
      const int64_t from_first = int64_t{rank} - first_;
      const int64_t place = from_first / step_;
      return place >= 0 && place < n && place * step_ == from_first
                 ? static_cast<int>(place)
                 : -1;
    }
    case Form::kAscending: {
      const auto at = std::lower_bound(ranks_.begin(), ranks_.end(), rank);
      return at != ranks_.end() && *at == rank
                 ? static_cast<int>(at - ranks_.begin())
                 : -1;
    }
    case Form::kDense: {
      const int64_t at = int64_t{rank} - first_;
      return at >= 0 && at < static_cast<int64_t>(table_.size())
                 ? table_[static_cast<size_t>(at)]
                 : -1;
    }
    case Form::kSorted: {
      const auto at = std::lower_bound(
          table_.begin(), table_.end(), rank, [&](int32_t place, int wanted) {
            return ranks_[static_cast<size_t>(place)] < wanted;
          });
      return at != table_.end() && ranks_[static_cast<size_t>(*at)] == rank
                 ? *at
                 : -1;
    }
  }
  return -1;
}

}  // namespace distwrap::group
