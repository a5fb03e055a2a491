// The ranks that a rank waits for, by what they were last seen doing.
#include "base/error.h"
#include "comm/board/group_board.h"
#include "comm/op_shape.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <unistd.h>
#include <utility>

namespace distwrap::comm {
namespace {

constexpr auto kOrder = std::memory_order_acquire;
// After this a rank that shows no sign of life is suspected.
constexpr int64_t kSuspectNs = 1'000'000'000;

// Never negative, whatever stands there.
absl::Duration since(int64_t then_ns) {
  if (then_ns <= 0) return absl::ZeroDuration();
  return std::max(
      absl::Nanoseconds(Deadline::now_ns()) - absl::Nanoseconds(then_ns),
      absl::ZeroDuration());
}

}  // namespace

void GroupBoard::describe(GroupFacts* facts) const {
  *facts = {place_.rank, static_cast<int32_t>(place_.global_ranks.size()), {}};
  place_.group.copy(facts->name.data(), facts->name.size());
}

void GroupBoard::look_at_self(int64_t now_ns) {
  busy_ = false;
  if (const uint64_t last = page_->last.load(std::memory_order_relaxed);
      last != looked_at_) {
    busy_ = true;
    looked_at_ = last;
    page_->moved_ns.store(now_ns, std::memory_order_relaxed);
  }
  const uint64_t inside = page_->inside.load(std::memory_order_relaxed);
  const uint64_t begun = in_flight_.oldest();
  page_->aside.store(begun, std::memory_order_release);
  const uint64_t oldest = inside == 0  ? begun
                          : begun == 0 ? inside
                                       : std::min(inside, begun);
  busy_ = busy_ || oldest != 0;
  if (oldest == page_->pending.load(std::memory_order_relaxed)) return;
  page_->pending.store(0, std::memory_order_release);
  page_->since_ns.store(now_ns, std::memory_order_release);
  page_->pending.store(oldest, std::memory_order_release);
}

bool GroupBoard::has_come(Member& member, uint64_t number) {
  if (const GroupPage* const page = page_of(member); page != nullptr)
    return page->last.load(kOrder) >= number;
  // A rank may have left after it had come.
  return member.reached >= number;
}

// A rank that does not run is waited for wherever it is.
bool GroupBoard::is_missing(Member& member, uint64_t number) {
  return member.who->silent_ns >= kSuspectNs || !has_come(member, number);
}

std::optional<GroupBoard::Stuck> GroupBoard::stuck(int64_t now_ns) {
  const uint64_t number = page_->pending.load(std::memory_order_relaxed);
  const int64_t since_ns = page_->since_ns.load(std::memory_order_relaxed);
  if (told_ || number == 0 || number <= reported_ ||
      absl::Nanoseconds(now_ns) - absl::Nanoseconds(since_ns) <
          board_->plan_.straggler)
    return std::nullopt;
  Stuck stuck;
  for (Member& member : members_)
    if (is_missing(member, number)) stuck.missing.push_back(seen(member));
  for (const FarMember& member : far_)
    if (is_missing(member, number)) stuck.missing.push_back(seen(member));
  if (stuck.missing.empty())
    return std::nullopt;  // the operation is merely slow
  reported_ = number;
  stuck.seq = number;
  if (const std::optional<Seen> own = read(*page_, number); own.has_value()) {
    stuck.op = op_shape(static_cast<uint16_t>(own->call.what & 0xff)).name;
    stuck.call = own->call.text();
    stuck.label = own->label;
  }
  stuck.waited = since(since_ns);
  stuck.speaks = speaks(number, since_ns);
  if (stuck.speaks) page_->told.store(number, std::memory_order_release);
  stuck.text = line_of(stuck);
  return stuck;
}

// The rank that has waited longest speaks for all, unless one has spoken.
bool GroupBoard::speaks(uint64_t number, int64_t since_ns) {
  uint64_t slowest = number;
  for (Member& member : members_) {
    if (member.who->silent_ns >= kSuspectNs) slowest = 0;
    const GroupPage* const page = page_of(member);
    slowest = std::min(
        slowest, page == nullptr ? member.reached : page->last.load(kOrder));
  }
  for (Member& member : members_) {
    const GroupPage* const page = page_of(member);
    if (page == nullptr || member.who->silent_ns >= kSuspectNs) continue;
    const uint64_t pending = page->pending.load(kOrder);
    const int64_t theirs_ns = page->since_ns.load(kOrder);
    const uint64_t told = page->told.load(kOrder);
    if (told != 0 && (told == pending || told >= number)) return false;
    if (pending > slowest &&
        (theirs_ns < since_ns ||
         (theirs_ns == since_ns && member.rank < place_.rank)))
      return false;
  }
  return true;
}

std::string GroupBoard::line_of(const Stuck& stuck) const {
  std::vector<int> ranks;
  for (const RankSeen& seen : stuck.missing) ranks.push_back(seen.rank);
  std::string text = absl::StrCat(
      "\"", place_.group, "\": ", stuck.call.empty() ? "a call" : stuck.call,
      " #", stuck.seq);
  if (!stuck.label.empty()) absl::StrAppend(&text, " [", stuck.label, "]");
  absl::StrAppend(&text, " has waited ", base::brief_duration(stuck.waited),
                  " for rank", ranks.size() == 1 ? " " : "s ",
                  base::rank_list(ranks), " of ", place_.global_ranks.size(),
                  base::seen_text(stuck.missing, place_.group));
  size_t elsewhere = place_.global_ranks.size() - 1 - members_.size();
  for (const FarMember& member : far_)
    if (member.page != nullptr) --elsewhere;
  if (elsewhere != 0)
    absl::StrAppend(&text, "; ", elsewhere,
                    " of other hosts have not told what they do");
  absl::StrAppend(&text, ". Next: `distwrap info --live` shows the job");
  return text;
}

std::vector<RankSeen> GroupBoard::missing(uint64_t number) {
  base::MutexLock lock(board_->mutex_);
  std::vector<RankSeen> missing;
  for (Member& member : members_)
    if (is_missing(member, number)) missing.push_back(seen(member));
  for (const FarMember& member : far_)
    if (is_missing(member, number)) missing.push_back(seen(member));
  std::sort(
      missing.begin(), missing.end(),
      [](const RankSeen& a, const RankSeen& b) { return a.rank < b.rank; });
  return missing;
}

RankSeen GroupBoard::seen(Member& member) {
  RankSeen seen;
  seen.rank = member.rank;
  seen.global_rank = member.who->rank;
  seen.host = board_->plan_.host;
  seen.pid = board_->front(member.who->area).pid;
  seen.group = place_.group;
  if (member.who->silent_ns >= kSuspectNs)
    seen.silent = absl::Nanoseconds(member.who->silent_ns);
  const GroupPage* const page = page_of(member);
  if (page == nullptr) {
    const AreaState state = board_->front(member.who->area).state.load(kOrder);
    if (member.met || state == AreaState::kClosed)
      seen.doing = RankSeen::Doing::kLeft;
    else
      see_elsewhere(member, &seen);
    return seen;
  }
  see_page(*page, &seen);
  if (seen.doing != RankSeen::Doing::kInside) see_elsewhere(member, &seen);
  return seen;
}

RankSeen GroupBoard::seen_self() const {
  RankSeen seen;
  seen.rank = place_.rank;
  seen.global_rank = place_.global_ranks[static_cast<size_t>(place_.rank)];
  seen.host = board_->plan_.host;
  seen.pid = getpid();
  seen.group = place_.group;
  see_page(*page_, &seen);
  return seen;
}

void GroupBoard::see_page(const GroupPage& page, RankSeen* seen) {
  const auto [number, since_ns] = Entered::of(page);
  seen->seq = number != 0 ? number : page.last.load(kOrder);
  if (seen->seq == 0) return;
  seen->doing = number != 0 ? RankSeen::Doing::kInside : RankSeen::Doing::kDone;
  seen->since = since(number != 0 ? since_ns : page.moved_ns.load(kOrder));
  if (const std::optional<Seen> entry = read(page, seen->seq);
      entry.has_value()) {
    seen->call = entry->call.text();
    seen->label = entry->label;
  }
}

void GroupBoard::describe_ranks(ErrorInfo* info) {
  base::MutexLock lock(board_->mutex_);
  see_ranks(info);
}

void GroupBoard::see_ranks(ErrorInfo* info) {
  // Naming more ranks does not help.
  constexpr size_t kMost = 64;
  for (const int rank : info->ranks) {
    if (info->seen.size() == kMost) break;
    if (rank == place_.rank) info->seen.push_back(seen_self());
    for (Member& member : members_)
      if (member.rank == rank) info->seen.push_back(seen(member));
    for (const FarMember& member : far_)
      if (member.rank == rank && member.page != nullptr)
        info->seen.push_back(seen(member));
  }
}

void GroupBoard::see_elsewhere(const Member& member, RankSeen* seen) const {
  const Area& area = board_->memory_->area(member.who->area);
  for (size_t place = 0; place < kMostGroupPages; ++place) {
    // Only group pages are read.
    const uint64_t uid = area.front.groups[place].load(kOrder);
    if (uid == 0 || uid == place_.uid) continue;
    const GroupPage& page = area.groups[place];
    const auto [number, since_ns] = Entered::of(page);
    if (number == 0) continue;
    seen->doing = RankSeen::Doing::kInside;
    seen->seq = number;
    seen->group = seen_word({page.facts.name.data(), page.facts.name.size()});
    seen->since = since(since_ns);
    seen->call.clear();
    seen->label.clear();
    if (const std::optional<Seen> entry = read(page, number);
        entry.has_value()) {
      seen->call = entry->call.text();
      seen->label = entry->label;
    }
    return;
  }
}

}  // namespace distwrap::comm
