// The calls of members on other hosts. A host's speaker tells the others when
// it has waited for a while, when another host waits and this one's calls have
// moved since, and otherwise at long intervals. What was told stands in a group
// page of this process, so the same code reads it as reads the board.
//
// Between two tellings a fast program makes more calls than a page has entries.
// So all ranks keep the history at each 256th call, and tell some of these too.
#include "base/error.h"
#include "comm/board/group_board.h"
#include "comm/board/pair_counts.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <map>
#include <unistd.h>
#include <utility>

namespace distwrap::comm {
namespace {

constexpr auto kOrder = std::memory_order_acquire;
// After this a waiting rank tells for what it waits, and is answered.
constexpr int64_t kWaitNs = 200'000'000;
// The interval at which calls are told although nobody waits.
constexpr int64_t kTellNs = 1'000'000'000;
// Each text goes to all ranks, so more of them hear less often.
constexpr int64_t kRanks = 32;
// For the way of a text.
constexpr int64_t kMarginNs = 100'000'000;
constexpr size_t kToldCheckpoints = 8;

void write(const ToldCalls::Call& call, Entry* entry) {
  constexpr auto kFree = std::memory_order_relaxed;
  entry->history.store(call.history, kFree);
  entry->what.store(call.what, kFree);
  entry->count.store(call.count, kFree);
  for (size_t i = 0; i < call.label.size(); ++i)
    entry->label[i].store(call.label[i], kFree);
  entry->number.store(call.number, kFree);
}

}  // namespace

void GroupBoard::keep_checkpoint(uint64_t number) {
  const uint64_t history =
      page_->entries[number % GroupPage::kEntries].history.load(
          std::memory_order_relaxed);
  Checkpoint& one =
      checkpoints_[number / kCheckpointEvery % checkpoints_.size()];
  one.number.store(0, std::memory_order_relaxed);
  one.history.store(history, std::memory_order_release);
  one.number.store(number, std::memory_order_release);
}

std::optional<uint64_t> GroupBoard::history_at(uint64_t number) const {
  const Checkpoint& one =
      checkpoints_[number / kCheckpointEvery % checkpoints_.size()];
  if (one.number.load(kOrder) != number) return std::nullopt;
  const uint64_t history = one.history.load(kOrder);
  if (one.number.load(std::memory_order_relaxed) != number) return std::nullopt;
  return history;
}

// The member on this host that has come furthest speaks for those that called
// the same. A member whose newest call has counts of its own speaks for itself.
bool GroupBoard::is_speaker(uint64_t inside) const {
  const uint64_t last = page_->last.load(kOrder);
  return shows_pair_counts(inside != 0 ? inside : last) ||
         std::none_of(
             members_.begin(), members_.end(), [&](const Member& member) {
               return member.who->fate == Board::Fate::kWell &&
                      (member.reached > last ||
                       (member.reached == last && member.rank < place_.rank));
             });
}

bool GroupBoard::shows_pair_counts(uint64_t number) const {
  const std::optional<Seen> seen =
      number == 0 ? std::nullopt : read(*page_, number);
  return seen.has_value() && PairCounts::are_in(seen->call);
}

ToldCalls GroupBoard::told_calls(uint64_t upto, uint64_t inside,
                                 int64_t now_ns) {
  ToldCalls told;
  told.host = board_->plan_.host;
  told.ranks.push_back({place_.rank, getpid(), upto});
  const bool alone = shows_pair_counts(inside != 0 ? inside : upto);
  for (const Member& member : members_)
    if (!alone && member.suspect == 0 &&
        member.agreed >= std::min(member.reached, upto))
      told.ranks.push_back({member.rank, board_->front(member.who->area).pid,
                            std::min(member.agreed, upto)});
  told.inside = inside;
  const int64_t since_ns = (inside != 0 ? page_->since_ns : page_->moved_ns)
                               .load(std::memory_order_relaxed);
  told.since_ns = since_ns == 0 ? 0 : std::max<int64_t>(now_ns - since_ns, 0);
  for (uint64_t n = upto == 0 ? 1 : oldest_kept(upto); n <= upto; ++n) {
    const std::optional<Seen> seen = read(*page_, n);
    if (!seen.has_value()) continue;
    ToldCalls::Call call{n, seen->history, seen->call.what, seen->call.count};
    const Entry& entry = page_->entries[n % GroupPage::kEntries];
    for (size_t i = 0; i < call.label.size(); ++i)
      call.label[i] = entry.label[i].load(std::memory_order_relaxed);
    told.calls.push_back(call);
  }
  for (uint64_t n = upto / kCheckpointEvery * kCheckpointEvery;
       n != 0 && told.checkpoints.size() < kToldCheckpoints;
       n -= kCheckpointEvery)
    if (const std::optional<uint64_t> history = history_at(n - 1);
        history.has_value())
      told.checkpoints.push_back({n - 1, *history});
  if (!alone) return told;
  const auto copy = [this] {
    std::vector<uint32_t> counts;
    for (const auto& word : page_->counts.words)
      counts.push_back(word.load(kOrder));
    return counts;
  };
  // Two equal copies are not of a moment in which a call was being shown.
  for (int tries = 0; tries < 8 && told.counts.empty(); ++tries) {
    told.counts = copy();
    if (told.counts != copy()) told.counts.clear();
  }
  while (!told.counts.empty() && told.counts.back() == 0)
    told.counts.pop_back();
  return told;
}

int64_t GroupBoard::scale() const {
  return std::max<int64_t>(1, board_->plan_.world_size / kRanks);
}

// A rank that has found a difference tells its calls all the same, or the
// others could not find it.
std::optional<std::string> GroupBoard::to_tell(int64_t now_ns) {
  if (!has_far_members()) return std::nullopt;
  if (told_ns_ == 0) told_ns_ = now_ns;
  const uint64_t last = page_->last.load(kOrder);
  const uint64_t pending = page_->pending.load(std::memory_order_relaxed);
  const int64_t since_ns = page_->since_ns.load(std::memory_order_relaxed);
  const uint64_t inside =
      pending != 0 && now_ns - since_ns >= kWaitNs ? pending : 0;
  if (!is_speaker(inside)) return std::nullopt;
  const bool is_new = last != told_last_ || inside != told_inside_;
  const bool waits = inside != 0 || asked_;
  // At its first answer a rank says, too, that it has made no call.
  if (!is_new && !(asked_ && told_last_ == 0)) return std::nullopt;
  if (now_ns - told_ns_ < scale() * (waits ? kWaitNs : kTellNs))
    return std::nullopt;
  // A call is visible for a moment before its backend refuses it.
  const uint64_t upto = busy_ && inside != last && last != 0 ? last - 1 : last;
  asked_ = false;
  told_last_ = upto;
  told_inside_ = inside;
  told_ns_ = now_ns;
  return told_calls(upto, inside, now_ns).text();
}

FarPage GroupBoard::page_for(int rank) const {
  if (board_->far_memory_ == nullptr) return FarMemory::take_private();
  GroupFacts facts = {};
  describe(&facts);
  facts.rank = rank;
  return board_->far_memory_->take(
      place_.global_ranks[static_cast<size_t>(rank)], place_.uid, facts);
}

void GroupBoard::hear(absl::string_view text) {
  const std::optional<ToldCalls> told = ToldCalls::read(text);
  if (!told.has_value()) return;
  base::MutexLock lock(board_->mutex_);
  for (const ToldCalls::Rank& one : told->ranks) {
    const auto far = std::find_if(
        far_.begin(), far_.end(),
        [&](const FarMember& member) { return member.rank == one.rank; });
    if (far == far_.end()) continue;  // a text of this host
    if (far->page == nullptr) far->page = page_for(far->rank);
    if (board_->far_memory_ != nullptr)
      board_->far_memory_->know(
          place_.global_ranks[static_cast<size_t>(far->rank)], told->host,
          one.process);
    GroupPage& page = *far->page;
    const uint64_t inside = one.last >= told->inside ? told->inside : 0;
    // Another rank of its host may know less of it than it has said itself.
    const std::pair known(page.last.load(std::memory_order_relaxed),
                          page.inside.load(std::memory_order_relaxed));
    if (one.rank != told->ranks.front().rank &&
        std::pair(one.last, inside) < known)
      continue;
    for (const ToldCalls::Call& call : told->calls)
      write(call, &page.entries[call.number % GroupPage::kEntries]);
    for (size_t i = 0; !told->counts.empty() && i < page.counts.words.size();
         ++i)
      page.counts.words[i].store(i < told->counts.size() ? told->counts[i] : 0,
                                 std::memory_order_relaxed);
    const int64_t since_ns = Deadline::now_ns() - told->since_ns;
    page.last.store(one.last, std::memory_order_relaxed);
    page.inside.store(inside, std::memory_order_relaxed);
    page.pending.store(inside, std::memory_order_relaxed);
    page.since_ns.store(since_ns, std::memory_order_relaxed);
    // Since when the others have done nothing is not known.
    page.moved_ns.store(told->inside == 0 ? since_ns : 0,
                        std::memory_order_relaxed);
    far->host = told->host;
    far->process = one.process;
    far->checkpoints = told->checkpoints;
    // The speaker tells its own histories, and may be ahead of this rank.
    std::erase_if(far->checkpoints, [&](const ToldCalls::Checkpoint& place) {
      return place.number > one.last;
    });
    if (told->inside != 0) asked_ = true;
  }
}

std::optional<ErrorInfo> GroupBoard::look_at_far() {
  for (FarMember& member : far_) {
    if (member.page == nullptr) continue;
    compare_checkpoints(member);
    const bool was_suspected = member.suspect != 0;
    std::optional<ErrorInfo> found = compare(member, *member.page);
    if (found.has_value()) return found;
    // The next look may find the very call on the pages.
    const bool waits = !was_suspected && member.suspect != 0;
    if (member.differs_at != 0 && !waits) return checkpoint_mismatch(member);
  }
  return std::nullopt;
}

void GroupBoard::compare_checkpoints(FarMember& member) {
  member.differs_at = 0;
  for (const ToldCalls::Checkpoint& theirs : member.checkpoints) {
    const std::optional<uint64_t> own = history_at(theirs.number);
    if (!own.has_value()) continue;
    if (*own != theirs.history) {
      member.differs_at = theirs.number;
      continue;
    }
    if (theirs.number > member.agreed) {
      member.agreed = theirs.number;
      member.agreed_history = *own;
    }
    return;  // the older ones are equal too
  }
}

// The call that differs is shown nowhere any more. As in `mismatch`, the ranks
// that are named are not of the largest part.
ErrorInfo GroupBoard::checkpoint_mismatch(const FarMember& member) {
  const uint64_t number = member.differs_at, since = member.agreed + 1;
  // The ranks whose calls were equal, by their history.
  std::map<uint64_t, std::vector<int>> parts;
  const uint64_t own = history_at(number).value_or(0);
  parts[own].push_back(place_.rank);
  for (const Member& near : members_)
    if (near.agreed >= number) parts[own].push_back(near.rank);
  for (const FarMember& far : far_)
    for (const ToldCalls::Checkpoint& theirs : far.checkpoints)
      if (theirs.number == number) parts[theirs.history].push_back(far.rank);
  std::vector<std::vector<int>> all;
  for (auto& [history, ranks] : parts) {
    std::sort(ranks.begin(), ranks.end());
    all.push_back(std::move(ranks));
  }
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) {
    return a.size() != b.size() ? a.size() > b.size() : a < b;
  });
  std::vector<int> others;
  for (size_t i = 1; i < all.size(); ++i)
    others.insert(others.end(), all[i].begin(), all[i].end());
  std::sort(others.begin(), others.end());
  ErrorInfo info = located(
      {.reason = Reason::kCallMismatch,
       .what = absl::StrCat("ranks called different operations, in a call from "
                            "#",
                            since, " to #", number),
       .ranks = std::move(others),
       .next_step = "make all ranks call the same in the same order; "
                    "`distwrap info --recorder` shows what each did last"});
  see_ranks(&info);
  return info;
}

// A member that has come tells so when it waits or is asked, which takes as
// long as two waits, so before that it is not known.
bool GroupBoard::is_missing(const FarMember& member, uint64_t number) const {
  if (member.page == nullptr || member.page->last.load(kOrder) >= number)
    return false;
  const int64_t waited_ns =
      Deadline::now_ns() - page_->since_ns.load(std::memory_order_relaxed);
  return page_->pending.load(std::memory_order_relaxed) != 0 &&
         waited_ns > 2 * scale() * kWaitNs + kMarginNs;
}

RankSeen GroupBoard::seen(const FarMember& member) const {
  RankSeen seen;
  seen.rank = member.rank;
  seen.global_rank = place_.global_ranks[static_cast<size_t>(member.rank)];
  seen.host = member.host;
  seen.pid = member.process;
  seen.group = place_.group;
  if (member.page != nullptr) see_page(*member.page, &seen);
  return seen;
}

}  // namespace distwrap::comm
