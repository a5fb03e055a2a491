// From a rank of the world to its rank in a group.
//
// Ranks in equal steps, which most groups have, take no memory; ascending ones
// are looked up in the group's own list; others get a table.
// Threads: constant after construction.
#ifndef DISTWRAP_SRC_GROUP_RANK_MAP_H_
#define DISTWRAP_SRC_GROUP_RANK_MAP_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace distwrap::group {

class RankMap {
 public:
  // `ranks` are different and not negative; the list outlives the map.
  explicit RankMap(const std::vector<int>& ranks);
  RankMap(const RankMap&) = delete;
  RankMap& operator=(const RankMap&) = delete;

  // -1 for a rank that is not in the list.
  int find(int rank) const;

  // What it holds beyond the list.
  size_t table_bytes() const { return table_.size() * sizeof table_[0]; }

 private:
  enum class Form : uint8_t { kSteps, kAscending, kDense, kSorted };

  const std::vector<int>& ranks_;
  Form form_ = Form::kSteps;
  int first_ = 0;
  int step_ = 1;  // not 0; also below it
  // kDense: by rank - first_, the place or -1. kSorted: places by rank.
  std::vector<int32_t> table_;
};

}  // namespace distwrap::group

#endif  // DISTWRAP_SRC_GROUP_RANK_MAP_H_
