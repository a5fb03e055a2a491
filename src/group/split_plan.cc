#include "group/split_plan.h"

#include "base/error.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <map>
#include <tuple>

namespace distwrap::group {
namespace {

constexpr uint64_t kOdd1 = 0xd6e8feb86659fd93u;
constexpr uint64_t kOdd2 = 0xa0761d6478bd642fu;
constexpr size_t kMostShown = 160;

uint64_t stir(uint64_t state, uint64_t word) {
  state = (state ^ word) * kOdd1;
  return state ^ (state >> 29);
}

uint64_t pair_of(int low, int high) {
  return uint64_t{static_cast<uint32_t>(low)} |
         uint64_t{static_cast<uint32_t>(high)} << 32;
}

// Mixes four ranks by one multiplication; the two halves of the product are
// combined. `a` starts from another constant, so that exchanging the pairs
// changes the result. The highest bits of `a` and kOdd1 keep any pair of ranks
// from making the product zero.
uint64_t fold(uint64_t a, uint64_t b) {
  __extension__ using Wide = unsigned __int128;
  const Wide product = Wide{a} * (b ^ kOdd1);
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

// Two neighbouring ranks; one load on a little-endian machine.
uint64_t pair_at(const int* ranks) { return pair_of(ranks[0], ranks[1]); }

absl::Status bad_lists(absl::string_view op, std::string what,
                       const RankLists& lists) {
  return base::make_error({.reason = Reason::kInvalidArgument,
                           .what = std::move(what),
                           .op = std::string(op),
                           .actual = show_lists(lists),
                           .next_step = "give lists of the parent's ranks, "
                                        "each rank once at most"});
}

}  // namespace

uint64_t mix_hash(uint64_t a, uint64_t b) {
  return stir(stir(kOdd2, a), b) * kOdd2;
}

// Four independent hashes in registers, so that no multiplication waits for the
// previous one.
uint64_t hash_ranks(absl::Span<const int> ranks) {
  uint64_t a = kOdd2, b = kOdd2 + 2, c = kOdd2 + 4, d = kOdd2 + 6;
  size_t i = 0;
  for (; i + 16 <= ranks.size(); i += 16) {
    const int* const at = ranks.data() + i;
    a = fold(a ^ pair_at(at), pair_at(at + 2));
    b = fold(b ^ pair_at(at + 4), pair_at(at + 6));
    c = fold(c ^ pair_at(at + 8), pair_at(at + 10));
    d = fold(d ^ pair_at(at + 12), pair_at(at + 14));
  }
  uint64_t hash = ranks.size();
  for (const uint64_t group_board : {a, b, c, d})
    hash = mix_hash(hash, group_board);
  for (; i < ranks.size(); ++i) hash = mix_hash(hash, pair_of(ranks[i], -1));
  return hash;
}

uint64_t hash_text(absl::string_view text) {
  uint64_t hash = text.size();
  for (const char c : text) hash = stir(hash, static_cast<unsigned char>(c));
  return mix_hash(hash, text.size());
}

absl::StatusOr<Place> check_lists(const RankLists& lists, int size, int rank,
                                  absl::string_view op) {
  if (lists.empty()) return bad_lists(op, "there is no list of ranks", lists);
  // A byte for each rank; with single bits each step would wait for the
  // previous one.
  std::vector<uint8_t> seen(static_cast<size_t>(size), 0);
  Place place;
  for (size_t l = 0; l < lists.size(); ++l) {
    const std::vector<int>& list = lists[l];
    if (list.empty())
      return bad_lists(op, absl::StrCat("list ", l, " is empty"), lists);
    for (size_t i = 0; i < list.size(); ++i) {
      const int member = list[i];
      if (member < 0 || member >= size)
        return bad_lists(
            op,
            absl::StrCat("rank ", member, " of list ", l,
                         " is not in the parent, whose size is ", size),
            lists);
      uint8_t& mark = seen[static_cast<size_t>(member)];
      if (mark != 0)
        return bad_lists(op, absl::StrCat("rank ", member, " is named twice"),
                         lists);
      mark = 1;
      if (member == rank) place = {static_cast<int>(l), static_cast<int>(i)};
    }
  }
  return place;
}

ChildPlan plan_child(absl::Span<const int> members,
                     const std::vector<int>& parent_global_ranks) {
  ChildPlan plan;
  // Filled with zeros first: a direct copy of the members takes three times as
  // long when source and destination begin at similar offsets of their pages.
  plan.global_ranks.resize(members.size());
  const int* const global = parent_global_ranks.data();
  const int* const member = members.data();
  int* const rank = plan.global_ranks.data();
  size_t i = 0;
  for (; i + 4 <= members.size(); i += 4) {
    rank[i] = global[member[i]];
    rank[i + 1] = global[member[i + 1]];
    rank[i + 2] = global[member[i + 2]];
    rank[i + 3] = global[member[i + 3]];
  }
  for (; i < members.size(); ++i) rank[i] = global[member[i]];
  plan.members_hash = hash_ranks(members);
  return plan;
}

uint64_t child_uid(uint64_t parent_uid, uint64_t members_hash,
                   absl::string_view description, uint64_t generation) {
  return mix_hash(mix_hash(parent_uid, members_hash),
                  mix_hash(hash_text(description), generation));
}

uint64_t hash_lists(const RankLists& lists) {
  uint64_t hash = lists.size();
  for (const std::vector<int>& list : lists)
    hash = mix_hash(hash, hash_ranks(list));
  return hash;
}

std::string show_lists(const RankLists& lists) {
  std::string text = "[";
  for (const std::vector<int>& list : lists) {
    absl::StrAppend(&text, text.size() == 1 ? "[" : ", [");
    for (size_t i = 0; i < list.size() && text.size() <= kMostShown; ++i)
      absl::StrAppend(&text, i == 0 ? "" : ", ", list[i]);
    if (text.size() > kMostShown) return absl::StrCat(text, " ...");
    absl::StrAppend(&text, "]");
  }
  return absl::StrCat(text, "]");
}

RankLists lists_of_colors(const std::vector<ColorKey>& by_rank) {
  std::vector<std::tuple<int64_t, int64_t, int>> order;
  for (size_t rank = 0; rank < by_rank.size(); ++rank)
    if (by_rank[rank].color >= 0)
      order.emplace_back(by_rank[rank].color, by_rank[rank].key,
                         static_cast<int>(rank));
  std::sort(order.begin(), order.end());
  RankLists lists;
  for (size_t i = 0; i < order.size(); ++i) {
    if (i == 0 || std::get<0>(order[i]) != std::get<0>(order[i - 1]))
      lists.emplace_back();
    lists.back().push_back(std::get<2>(order[i]));
  }
  return lists;
}

}  // namespace distwrap::group
