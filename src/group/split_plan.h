// The result of a split, computed before anything is sent: whether the lists
// are valid, the members and order of the caller's group, and its identity.
//
// One linear pass over the ranks, without store and backend.
// Threads: pure functions.
#ifndef DISTWRAP_SRC_GROUP_SPLIT_PLAN_H_
#define DISTWRAP_SRC_GROUP_SPLIT_PLAN_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>
#include <absl/types/span.h>

#include <cstdint>
#include <string>
#include <vector>

namespace distwrap::group {

using RankLists = std::vector<std::vector<int>>;

// 64 bits that depend on every rank and on the order; equal on every machine.
uint64_t hash_ranks(absl::Span<const int> ranks);
uint64_t hash_text(absl::string_view text);
uint64_t mix_hash(uint64_t a, uint64_t b);

// The list that names `rank`, and the place in it; -1 when none does.
struct Place {
  int list = -1;
  int position = -1;
};

// kInvalidArgument unless the lists are not empty, in range and disjoint,
// without repetition. Finds `rank` at the same time.
absl::StatusOr<Place> check_lists(const RankLists& lists, int size, int rank,
                                  absl::string_view op);

// The caller's group.
struct ChildPlan {
  std::vector<int> global_ranks;
  uint64_t members_hash = 0;  // hash of the members' positions in the parent
};
ChildPlan plan_child(absl::Span<const int> members,
                     const std::vector<int>& parent_global_ranks);

// Equal on all members of the child and unique to it: it depends only on calls
// of the members. `generation` counts how often the parent has made this child.
uint64_t child_uid(uint64_t parent_uid, uint64_t members_hash,
                   absl::string_view description, uint64_t generation);

// A hash of all lists, to compare calls.
uint64_t hash_lists(const RankLists& lists);
// "[[0, 1], [2, 3]]", shortened.
std::string show_lists(const RankLists& lists);

// Makes lists of the ranks with equal colours, ordered by (key, rank); a rank
// with a negative colour is in none. The lists are in the order of their
// colours.
struct ColorKey {
  int64_t color = 0, key = 0;
};
RankLists lists_of_colors(const std::vector<ColorKey>& by_rank);

}  // namespace distwrap::group

#endif  // DISTWRAP_SRC_GROUP_SPLIT_PLAN_H_
