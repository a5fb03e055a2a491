// Maps a rank of the world to its rank in a group.
//
// Ranks in equal steps, as in most groups, need no memory; ascending ranks are
// searched in the group's own list; other lists get a table.
// Threads: constant after construction.
#ifndef DISTWRAP_SRC_GROUP_RANK_MAP_H_
#define DISTWRAP_SRC_GROUP_RANK_MAP_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace distwrap::group {

class RankMap {
 public:
  // `ranks` are distinct and not negative; the list outlives the map.
  explicit RankMap(const std::vector<int>& ranks);
  RankMap(const RankMap&) = delete;
  RankMap& operator=(const RankMap&) = delete;

  // The rank in the group; -1 for a rank that is not in the list.
  int find(int rank) const;

  // The memory beyond the list.
  size_t table_bytes() const { return table_.size() * sizeof table_[0]; }

 private:
  enum class Form : uint8_t { kSteps, kAscending, kDense, kSorted };

  const std::vector<int>& ranks_;
  Form form_ = Form::kSteps;
  int first_ = 0;
  int step_ = 1;  // not 0; may be negative
  // kDense: by rank - first_, the place or -1. kSorted: places, sorted by rank.
  std::vector<int32_t> table_;
};

}  // namespace distwrap::group

#endif  // DISTWRAP_SRC_GROUP_RANK_MAP_H_
