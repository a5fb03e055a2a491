// Finds whether the ranks' calls differ, by one number that covers all calls,
// and describes what each rank has called.
#include "base/error.h"
#include "comm/board/group_board.h"
#include "comm/board/pair_counts.h"
#include "comm/op_shape.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <utility>

namespace distwrap::comm {
namespace {

// A call as its rank has named it.
std::string with_label(std::string call, absl::string_view label) {
  if (!label.empty()) absl::StrAppend(&call, " (\"", label, "\")");
  return call;
}

std::string elements(uint32_t count) {
  return count == ShownPair::kMost
             ? absl::StrCat(count, " elements or more")
             : absl::StrCat(count, count == 1 ? " element" : " elements");
}

}  // namespace

template <class Body>
void GroupBoard::for_each_page(const Body& body) {
  size_t next = 0, far = 0;
  for (int rank = 0; rank < size(); ++rank) {
    const GroupPage* page = nullptr;
    if (rank == place_.rank)
      page = page_;
    else if (next < members_.size() && members_[next].rank == rank)
      page = page_of(members_[next++]);
    else if (far < far_.size() && far_[far].rank == rank)
      page = far_[far++].page.get();
    if (page != nullptr) body(rank, *page);
  }
}

uint64_t GroupBoard::show_counts(const dw_op& op) {
  if (!PairCounts::are_in(op)) {
    show_common_counts(op, size(), &page_->counts);
    return 0;
  }
  return PairCounts(op, place_.rank, size()).show(&page_->counts);
}

std::optional<ErrorInfo> GroupBoard::look_at_pair(Compared& member,
                                                  const GroupPage& theirs,
                                                  uint64_t upto) {
  // Compares the last call again: it may have changed meanwhile.
  uint64_t n = std::max(std::min(member.paired + 1, upto), oldest_kept(upto));
  for (; n <= upto; ++n) {
    const Entry& entry = page_->entries[n % GroupPage::kEntries];
    if (entry.number.load(std::memory_order_acquire) != n ||
        !PairCounts::are_in(
            SeenCall{0, entry.what.load(std::memory_order_acquire), 0}))
      continue;
    const auto mine = ShownPair::read(page_->counts, size(), n, member.rank);
    const auto others = ShownPair::read(theirs.counts, size(), n, place_.rank);
    if (!mine.has_value() || !others.has_value() ||
        (mine->sends == others->expects && mine->expects == others->sends))
      continue;
    if (member.unequal == n) return pair_mismatch(n);
    member.unequal = n;
    member.paired = n - 1;
    return std::nullopt;
  }
  member.paired = upto;
  return std::nullopt;
}

std::optional<uint64_t> GroupBoard::balance_at(uint64_t number) {
  int ranks = 0;
  uint64_t sum = 0;
  for_each_page([&](int, const GroupPage& page) {
    const std::optional<Seen> seen = read(page, number);
    if (!seen.has_value()) return;
    ++ranks;
    sum += seen->balance;
  });
  return ranks == size() ? std::optional(sum) : std::nullopt;
}

std::optional<ErrorInfo> GroupBoard::look_at_balance() {
  if (!sees_all()) return std::nullopt;
  uint64_t upto = page_->last.load(std::memory_order_acquire);
  for (const Member& member : members_) upto = std::min(upto, member.reached);
  const std::optional<Seen> own = upto == 0 ? std::nullopt : read(*page_, upto);
  if (!own.has_value() ||
      (upto == balanced_ && own->history == balanced_history_))
    return std::nullopt;
  const std::optional<uint64_t> balance = balance_at(upto);
  if (!balance.has_value()) return std::nullopt;
  if (*balance == 0) {
    balanced_ = upto;
    balanced_history_ = own->history;
    unbalanced_ = 0;
    return std::nullopt;
  }
  // As for calls that differ, the difference has to be seen twice.
  if (unbalanced_ == 0 || unbalanced_ > upto) {
    unbalanced_ = upto;
    return std::nullopt;
  }
  for (uint64_t n = std::max(balanced_ + 1, oldest_kept(upto)); n < upto; ++n)
    if (balance_at(n).value_or(0) != 0) return pair_mismatch(n);
  return pair_mismatch(upto);
}

// For two lists that should be equal on all ranks: names the first entry that
// differs, and how many more do.
void GroupBoard::name_counts(const GroupPage& a, const GroupPage& b,
                             uint64_t number, std::string* of_a,
                             std::string* of_b) const {
  int others = -1;
  for (int rank = 0; rank < size(); ++rank) {
    const auto one = ShownPair::read(a.counts, size(), number, rank);
    const auto other = ShownPair::read(b.counts, size(), number, rank);
    if (!one.has_value() || !other.has_value() ||
        one->expects == other->expects || ++others > 0)
      continue;
    const auto say = [rank](const ShownPair& shown) {
      return absl::StrCat(", ", elements(shown.expects), " for rank ", rank);
    };
    absl::StrAppend(of_a, say(*one));
    absl::StrAppend(of_b, say(*other));
  }
  if (others > 0)
    absl::StrAppend(of_b, " and ", others,
                    others == 1 ? " more differs" : " more differ");
}

// The call that most ranks made is the expected one; in a tie, the lowest
// rank's.
ErrorInfo GroupBoard::mismatch(uint64_t number, uint64_t since) {
  struct CallOfRanks {
    uint64_t history;
    SeenCall seen;
    std::string text;
    std::vector<int> ranks;
    const GroupPage* page;  // the first such rank's
  };
  std::vector<CallOfRanks> calls;
  uint16_t own_kind = 0;
  for_each_page([&](int rank, const GroupPage& page) {
    const std::optional<Seen> seen = read(page, number);
    if (!seen.has_value()) return;
    if (rank == place_.rank)
      own_kind = static_cast<uint16_t>(seen->call.what & 0xff);
    for (CallOfRanks& call : calls)
      if (call.history == seen->history) return call.ranks.push_back(rank);
    calls.push_back({seen->history,
                     seen->call,
                     with_label(seen->call.text(), seen->label),
                     {rank},
                     &page});
  });
  std::stable_sort(calls.begin(), calls.end(),
                   [](const CallOfRanks& a, const CallOfRanks& b) {
                     return a.ranks.size() > b.ranks.size();
                   });
  ErrorInfo info = located(
      {.reason = Reason::kCallMismatch,
       .what = since == number
                   ? "ranks called different operations"
                   : absl::StrCat("ranks called different operations, in this "
                                  "call or an earlier one from #",
                                  since, " on"),
       .op = op_shape(own_kind).name,
       .seq = number,
       .next_step = "make all ranks call the same in the same order; "
                    "`distwrap info --recorder` shows what each did last"});
  const bool alike = calls.size() > 1 &&
                     calls[0].seen.what == calls[1].seen.what &&
                     since == number;
  if (alike && (calls[0].seen.what & SeenCall::kPrepared) != 0) {
    info.what = "ranks started different prepared operations";
    info.next_step = "start the same one on all ranks, in the same order";
  } else if (alike && (calls[0].seen.what & SeenCall::kWithCounts) != 0) {
    info.what = "ranks gave different counts per rank";
    info.next_step = "give the same list of counts on all ranks";
    // Counts are named only where the page had room for them.
    name_counts(*calls[0].page, *calls[1].page, number, &calls[0].text,
                &calls[1].text);
  }
  const auto say = [](const CallOfRanks& call) {
    return absl::StrCat(call.text, " (rank",
                        call.ranks.size() == 1 ? " " : "s ",
                        base::rank_list(call.ranks), ")");
  };
  for (size_t i = 0; i < calls.size(); ++i) {
    if (i == 0) {
      info.expected = say(calls[i]);
      continue;
    }
    absl::StrAppend(&info.actual, i == 1 ? "" : ", ", say(calls[i]));
    info.ranks.insert(info.ranks.end(), calls[i].ranks.begin(),
                      calls[i].ranks.end());
  }
  std::sort(info.ranks.begin(), info.ranks.end());
  see_ranks(&info);
  return info;
}

ErrorInfo GroupBoard::pair_mismatch(uint64_t number) {
  struct Shown {
    const GroupPage* page = nullptr;
    std::string call;
  };
  std::vector<Shown> members(static_cast<size_t>(size()));
  uint16_t kind = 0;
  for_each_page([&](int rank, const GroupPage& page) {
    Shown& member = members[static_cast<size_t>(rank)];
    member.page = &page;
    if (const std::optional<Seen> seen = read(page, number); seen.has_value()) {
      kind = static_cast<uint16_t>(seen->call.what & 0xff);
      member.call = with_label(seen->call.text(), seen->label);
    }
  });
  ErrorInfo info = located(
      {.reason = Reason::kCallMismatch,
       .what =
           "one rank sends a different number of elements than another expects",
       .op = op_shape(kind).name,
       .seq = number,
       .next_step =
           "rank i has to send rank j as many elements as rank j expects of "
           "rank i: exchange the counts first, by an all_to_all"});
  const auto at = [&](int rank, int peer) {
    const GroupPage* const page = members[static_cast<size_t>(rank)].page;
    return page == nullptr
               ? std::nullopt
               : ShownPair::read(page->counts, size(), number, peer);
  };
  int others = 0;
  for (int from = 0; from < size(); ++from)
    for (int to = 0; to < size(); ++to) {
      const std::optional<ShownPair> sender = at(from, to),
                                     receiver = at(to, from);
      if (!sender.has_value() || !receiver.has_value() ||
          sender->sends == receiver->expects)
        continue;
      if (!info.ranks.empty()) {
        ++others;
        continue;
      }
      info.ranks = {std::min(from, to), std::max(from, to)};
      info.expected =
          absl::StrCat(members[static_cast<size_t>(to)].call, " (rank ", to,
                       "): ", elements(receiver->expects), " of rank ", from);
      info.actual =
          absl::StrCat(members[static_cast<size_t>(from)].call, " (rank ", from,
                       "): ", elements(sender->sends), " to rank ", to);
    }
  if (others > 0)
    absl::StrAppend(&info.actual, ", and ", others,
                    others == 1 ? " more pair" : " more pairs");
  if (info.ranks.empty())
    info.actual = members[static_cast<size_t>(place_.rank)].call;
  see_ranks(&info);
  return info;
}

}  // namespace distwrap::comm
