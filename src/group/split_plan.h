// What a split makes, before anything is sent: whether the lists are good, who
// is in the caller's group and in which order, and what identifies it.
//
// One linear pass over the ranks; no store and no backend.
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

// 64 bits that depend on every rank and on the order. The same on every
// machine.
uint64_t hash_ranks(absl::Span<const int> ranks);
uint64_t hash_text(absl::string_view text);
uint64_t mix_hash(uint64_t a, uint64_t b);

// Which list names `rank`, and where; -1 when none does.
struct Place {
  int list = -1;
  int position = -1;
};

// Lists are not empty, in range, unrepeated and disjoint, else
// kInvalidArgument. Finds `rank` on the way.
absl::StatusOr<Place> check_lists(const RankLists& lists, int size, int rank,
                                  absl::string_view op);

// The caller's group.
struct ChildPlan {
  std::vector<int> global_ranks;
  uint64_t members_hash = 0;  // of the positions in the parent
};
ChildPlan plan_child(absl::Span<const int> members,
                     const std::vector<int>& parent_global_ranks);

// Equal on all members of the child and of no other group: what its members
// have done is all that enters. `generation` counts the times that the parent
// made this very child.
uint64_t child_uid(uint64_t parent_uid, uint64_t members_hash,
                   absl::string_view description, uint64_t generation);

// Of all lists, for comparing calls.
uint64_t hash_lists(const RankLists& lists);
// "[[0, 1], [2, 3]]", shortened.
std::string show_lists(const RankLists& lists);

// Ranks of equal colour in the order (key, rank); a colour below 0 is in none.
// The lists in the order of their colours.
struct ColorKey {
  int64_t color = 0, key = 0;
};
RankLists lists_of_colors(const std::vector<ColorKey>& by_rank);

}  // namespace distwrap::group

#endif  // DISTWRAP_SRC_GROUP_SPLIT_PLAN_H_
