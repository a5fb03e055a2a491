#include "comm/board/group_board.h"

#include "base/log.h"
#include "comm/op_shape.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

namespace distwrap::comm {

std::unique_ptr<GroupBoard> GroupBoard::open(std::shared_ptr<Board> board,
                                             Place place) {
  if (board == nullptr) return nullptr;
  std::unique_ptr<GroupBoard> group_board(
      new GroupBoard(std::move(board), std::move(place)));
  const Board& all = *group_board->board_;
  for (int rank = 0; rank < group_board->size(); ++rank) {
    const int global_rank =
        group_board->place_.global_ranks[static_cast<size_t>(rank)];
    if (const Board::Neighbour* const who = all.neighbour(global_rank))
      group_board->members_.push_back({{rank}, who});
    else if (all.plan_.hears_hosts && rank != group_board->place_.rank)
      group_board->far_.push_back({{rank}});
  }
  if (group_board->members_.empty() && group_board->far_.empty())
    return nullptr;
  if (group_board->has_far_members())
    group_board->checkpoint_mask_ = kCheckpointEvery - 1;
  group_board->own_place_ =
      group_board->board_->add(*group_board, group_board->place_.uid);
  if (group_board->own_place_ < 0) {
    base::log(base::LogLevel::kWarning,
              absl::StrCat("group '", group_board->place_.group,
                           "' is not watched: ", kMostGroupPages,
                           " groups of this rank are, or memory has run out"));
    return nullptr;
  }
  return group_board;
}

void GroupBoard::tell(Listener* listener) {
  base::MutexLock lock(board_->mutex_);
  board_->wait_until_told(*this);
  listener_ = listener;
}

GroupBoard::~GroupBoard() {
  if (own_place_ < 0) return;
  end_meetings();
  board_->remove(*this, own_place_);
}

void GroupBoard::show_label(absl::string_view label, Entry* entry) {
  std::array<uint64_t, 3> text = {};
  if (!label.empty())
    std::memcpy(text.data(), label.data(), std::min(label.size(), sizeof text));
  for (size_t i = 0; i < text.size(); ++i)
    entry->label[i].store(text[i], std::memory_order_release);
}

void GroupBoard::retract(uint64_t number) {
  page_->last.store(number - 1, std::memory_order_release);
}

std::optional<GroupBoard::Seen> GroupBoard::read(const GroupPage& page,
                                                 uint64_t number) {
  constexpr auto kOrder = std::memory_order_acquire;
  const Entry& entry = page.entries[number % GroupPage::kEntries];
  if (entry.number.load(kOrder) != number) return std::nullopt;
  Seen seen;
  seen.history = entry.history.load(kOrder);
  seen.balance = entry.balance.load(kOrder);
  seen.call.what = entry.what.load(kOrder);
  seen.call.count = entry.count.load(kOrder);
  std::array<uint64_t, 3> text;
  for (size_t i = 0; i < text.size(); ++i)
    text[i] = entry.label[i].load(kOrder);
  if (entry.number.load(std::memory_order_relaxed) != number)
    return std::nullopt;
  seen.label =
      seen_word({reinterpret_cast<const char*>(text.data()), sizeof text});
  return seen;
}

void GroupBoard::come_to(uint64_t number, int64_t now_ns) {
  Arrival& arrival = page_->arrivals[number % GroupPage::kArrivals];
  arrival.number.store(0, std::memory_order_relaxed);
  arrival.at_ns.store(now_ns, std::memory_order_release);
  arrival.number.store(number, std::memory_order_release);
}

int64_t GroupBoard::when_came(int rank, uint64_t number) const {
  const GroupPage* page = page_;
  if (rank != place_.rank) {
    const auto member =
        std::find_if(members_.begin(), members_.end(),
                     [&](const Member& one) { return one.rank == rank; });
    page = member == members_.end() ? nullptr : find_page(*member);
  }
  if (page == nullptr) return 0;
  const Arrival& arrival = page->arrivals[number % GroupPage::kArrivals];
  if (arrival.number.load(std::memory_order_acquire) != number) return 0;
  const int64_t at_ns = arrival.at_ns.load(std::memory_order_acquire);
  return arrival.number.load(std::memory_order_relaxed) == number ? at_ns : 0;
}

GroupPage* GroupBoard::page_of(Member& member) const {
  Area& area = board_->memory_->area(member.who->area);
  const auto is_there = [&](int place) {
    return area.front.groups[static_cast<size_t>(place)].load(
               std::memory_order_acquire) == place_.uid;
  };
  if (area.front.state.load(std::memory_order_acquire) == AreaState::kNotYet)
    return nullptr;
  if (member.place < 0 || !is_there(member.place)) {
    member.place = -1;
    for (int place = 0; place < static_cast<int>(kMostGroupPages); ++place)
      if (is_there(place)) member.place = place;
    if (member.place < 0) return nullptr;
    member.met = true;
  }
  return &area.groups[static_cast<size_t>(member.place)];
}

std::optional<ErrorInfo> GroupBoard::ask() {
  base::MutexLock lock(board_->mutex_);
  board_->look_around();
  // The first look raises a suspicion, the second confirms it.
  for (int times = 0; times < 2; ++times)
    if (std::optional<ErrorInfo> found = look_at_all(); found.has_value())
      return found;
  return std::nullopt;
}

std::optional<ErrorInfo> GroupBoard::who_gave_up() {
  base::MutexLock lock(board_->mutex_);
  return look_for_broken();
}

bool GroupBoard::may_explain(int rank) {
  if (std::any_of(far_.begin(), far_.end(),
                  [&](const FarMember& member) { return member.rank == rank; }))
    return true;
  base::MutexLock lock(board_->mutex_);
  return std::any_of(members_.begin(), members_.end(), [&](Member& member) {
    return member.rank == rank && member.who->fate == Board::Fate::kWell &&
           (page_of(member) != nullptr ||
            board_->front(member.who->area)
                    .state.load(std::memory_order_acquire) ==
                AreaState::kNotYet);
  });
}

bool GroupBoard::knows_loss(const ErrorInfo& info) {
  if (info.reason != Reason::kPeerLost) return false;
  base::MutexLock lock(board_->mutex_);
  return std::any_of(members_.begin(), members_.end(), [&](Member& member) {
    return member.who->fate != Board::Fate::kWell &&
           std::find(info.ranks.begin(), info.ranks.end(), member.rank) !=
               info.ranks.end();
  });
}

std::optional<ErrorInfo> GroupBoard::look(int64_t now_ns) {
  look_at_self(now_ns);
  if (told_) return std::nullopt;
  std::optional<ErrorInfo> found = look_at_all();
  if (!found.has_value()) found = look_for_broken();
  told_ = found.has_value();
  const auto is_suspected = [](const Compared& one) {
    return one.suspect != 0 || one.unequal > one.paired;
  };
  busy_ = busy_ || unbalanced_ != 0 ||
          std::any_of(members_.begin(), members_.end(), is_suspected) ||
          std::any_of(far_.begin(), far_.end(), is_suspected);
  return found;
}

std::optional<ErrorInfo> GroupBoard::look_at_all() {
  for (Member& member : members_)
    if (std::optional<ErrorInfo> found = look_at(member); found.has_value())
      return found;
  if (std::optional<ErrorInfo> found = look_at_far(); found.has_value())
    return found;
  return look_at_balance();
}

std::optional<ErrorInfo> GroupBoard::look_at(Member& member) {
  // A rank that had given the group up before it ended is not the cause;
  // look_for_broken tells of it.
  const bool gave_up =
      member.who->fate == Board::Fate::kEnded &&
      board_->broken_since(*member.who, place_.uid).has_value();
  if (member.who->fate != Board::Fate::kWell && !gave_up) return lost(member);
  const GroupPage* const theirs = page_of(member);
  return theirs == nullptr ? std::nullopt : compare(member, *theirs);
}

std::optional<ErrorInfo> GroupBoard::compare(Compared& member,
                                             const GroupPage& theirs) {
  member.reached = theirs.last.load(std::memory_order_acquire);
  const uint64_t upto =
      std::min(page_->last.load(std::memory_order_acquire), member.reached);
  if (upto == 0) return std::nullopt;
  const std::optional<Seen> own = read(*page_, upto);
  if (!own.has_value()) return std::nullopt;
  if (upto == member.agreed && own->history == member.agreed_history)
    return look_at_pair(member, theirs, upto);
  const std::optional<Seen> other = read(theirs, upto);
  if (!other.has_value()) return std::nullopt;
  if (own->history == other->history) {
    member.agreed = upto;
    member.agreed_history = own->history;
    member.suspect = 0;
    return look_at_pair(member, theirs, upto);
  }
  // A call that its backend then refuses is visible for a moment, so a
  // difference has to stay.
  if (member.suspect == 0 || member.suspect > upto) {
    member.suspect = upto;
    return std::nullopt;
  }
  uint64_t equal = member.agreed;
  for (uint64_t n = std::max(equal + 1, oldest_kept(upto)); n <= upto; ++n) {
    const std::optional<Seen> a = read(*page_, n), b = read(theirs, n);
    // A rank that is far ahead keeps only its newer calls.
    if (!a.has_value() || !b.has_value()) continue;
    if (a->history != b->history) return mismatch(n, equal + 1);
    equal = n;
  }
  return mismatch(upto, equal + 1);
}

ErrorInfo GroupBoard::located(ErrorInfo info) const {
  info.group = place_.group;
  info.my_rank = place_.rank;
  info.group_size = static_cast<int>(place_.global_ranks.size());
  return info;
}

// Ranks that wait for the broken rank learn of it from their connections; the
// others learn of it only here.
std::optional<ErrorInfo> GroupBoard::look_for_broken() {
  // The rank that failed first: the others gave up because of it.
  const Member* first = nullptr;
  int64_t first_ns = 0;
  for (const Member& member : members_) {
    const std::optional<int64_t> since_ns =
        board_->broken_since(*member.who, place_.uid);
    if (!since_ns.has_value() || (first != nullptr && *since_ns >= first_ns))
      continue;
    first = &member;
    first_ns = *since_ns;
  }
  if (first == nullptr) return std::nullopt;
  return located({.reason = Reason::kAborted,
                  .what = absl::StrCat("rank ", first->rank, " gave up"),
                  .ranks = {first->rank},
                  .next_step = "look at that rank's own output: it died, was "
                               "killed, or gave up"});
}

ErrorInfo GroupBoard::lost(Member& member) {
  if (member.who->fate == Board::Fate::kEnded)
    return located({.reason = Reason::kPeerLost,
                    .what = "a rank has ended",
                    .ranks = {member.rank},
                    .next_step = "look at that rank's own output: it died or "
                                 "was killed",
                    .seen = {seen(member)}});
  return located({.reason = Reason::kPeerLost,
                  .what = "a rank has stopped running",
                  .ranks = {member.rank},
                  .elapsed = absl::Nanoseconds(member.who->silent_ns),
                  .deadline = board_->plan_.heartbeat,
                  .setting = "DISTWRAP_HEARTBEAT",
                  .next_step = "check whether the process was stopped "
                               "(SIGSTOP, a debugger) or gets no processor",
                  .seen = {seen(member)}});
}

}  // namespace distwrap::comm
