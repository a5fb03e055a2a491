// Meetings of a group's members over the board: each writes a note in its own
// page and waits until it sees all others'.
//
// Notes have two places, used in turns. A member that writes its note of
// meeting n + 2 over that of n has been through n + 1, in which everybody was,
// having read the notes of n before.
//
// The verdict of a meeting is one word in the page of the group's first member.
// A member that sees all notes, or cannot wait longer, tries to write the
// verdict; all members follow the first one that was written. It contains a
// part of the group's uid, in case the page meanwhile belongs to another group.
#include "base/exceptions.h"
#include "comm/board/group_board.h"

#include <absl/cleanup/cleanup.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <sched.h>
#include <time.h>
#include <utility>

namespace distwrap::comm {
namespace {

constexpr auto kAcquire = std::memory_order_acquire;
constexpr auto kRelease = std::memory_order_release;

// A verdict: 32 bits of the uid, 30 of the meeting's number, 2 of what it is.
constexpr uint64_t kNumberMask = (uint64_t{1} << 30) - 1;
uint64_t word_of(uint64_t uid, uint64_t number, uint64_t what) {
  return uid >> 32 << 32 | (number & kNumberMask) << 2 | what;
}

// Stands in place of a meeting's number when no more meetings follow.
constexpr uint64_t kClosed = UINT64_MAX;

constexpr absl::Duration kReportEvery = absl::Seconds(5);

// For members that are in the middle of a meeting which has been decided.
constexpr absl::Duration kLeaveTime = absl::Milliseconds(50);

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

// The pause between two looks: none at first, then yields, then sleeps of at
// most a millisecond. With more ranks than processors an awaited rank may need
// this processor, so the first phase is very short.
class Patience {
 public:
  explicit Patience(bool oversubscribed) : spins_(oversubscribed ? 20 : 200) {}
  // Returns whether it is time to check the deadline and lost ranks.
  bool wait() {
    if (++looks_ <= spins_) {
      pause();
      return false;
    }
    if (looks_ <= spins_ + kYields) {
      sched_yield();
      return false;
    }
    const timespec nap{0, nap_ns_};
    nanosleep(&nap, nullptr);
    nap_ns_ = std::min(nap_ns_ * 2, kLongestNs);
    return true;
  }

 private:
  static constexpr int kYields = 100;
  static constexpr long kLongestNs = 1'000'000;
  const int spins_;
  int looks_ = 0;
  long nap_ns_ = 50'000;
};

}  // namespace

void GroupBoard::open_meetings(GroupPage* page) const {
  for (Note& note : page->notes) {
    note.number.store(0, std::memory_order_relaxed);
    note.verdict.store(word_of(place_.uid, 0, 0), std::memory_order_relaxed);
  }
}

// Null as long as the member has not opened its group page, and when it has
// closed it.
GroupPage* GroupBoard::meeting_page(int rank) {
  if (rank == place_.rank) return page_;
  const auto at = static_cast<size_t>(rank);
  const Member& member = members_[at - (rank > place_.rank ? 1 : 0)];
  meeting_pages_.resize(place_.global_ranks.size());
  GroupPage*& page = meeting_pages_[at];
  const Area& area = board_->memory_->area(member.who->area);
  if (page == nullptr ||
      area.front.groups[static_cast<size_t>(page - area.groups.data())].load(
          kAcquire) != place_.uid)
    page = find_page(member);
  return page;
}

GroupPage* GroupBoard::find_page(const Member& member) const {
  Area& area = board_->memory_->area(member.who->area);
  if (area.front.state.load(kAcquire) == AreaState::kNotYet) return nullptr;
  for (size_t place = 0; place < kMostGroupPages; ++place)
    if (area.front.groups[place].load(kAcquire) == place_.uid)
      return &area.groups[place];
  return nullptr;
}

void GroupBoard::show_note(absl::string_view text) {
  Note& note = page_->notes[meeting_ % 2];
  const size_t bytes = std::min(text.size(), Note::kMostBytes);
  std::array<uint64_t, Note::kWords> words = {};
  if (bytes != 0) std::memcpy(words.data(), text.data(), bytes);
  for (size_t i = 0; i * 8 < bytes; ++i)
    note.words[i].store(words[i], std::memory_order_relaxed);
  note.bytes.store(bytes, std::memory_order_relaxed);
  note.number.store(meeting_, kRelease);
}

bool GroupBoard::has_noted(int rank) {
  const GroupPage* const page = meeting_page(rank);
  return page != nullptr &&
         page->notes[meeting_ % 2].number.load(kAcquire) >= meeting_;
}

std::vector<int> GroupBoard::not_noted() {
  std::vector<int> missing;
  for (int rank = 0; rank < size(); ++rank)
    if (!has_noted(rank)) missing.push_back(rank);
  return missing;
}

std::optional<ErrorInfo> GroupBoard::lost_one() {
  base::MutexLock lock(board_->mutex_);
  for (Member& member : members_)
    if (member.who->fate != Board::Fate::kWell) return lost(member);
  return std::nullopt;
}

GroupBoard::Verdict GroupBoard::verdict() {
  const GroupPage* const page = meeting_page(0);
  if (page == nullptr) return Verdict::kNone;
  return verdict_in(page->notes[meeting_ % 2].verdict.load(kAcquire));
}

GroupBoard::Verdict GroupBoard::verdict_in(uint64_t word) const {
  if (word >> 32 != place_.uid >> 32) return Verdict::kNone;
  const uint64_t number = word >> 2 & kNumberMask;
  if (number == (meeting_ & kNumberMask)) return static_cast<Verdict>(word & 3);
  // Past this number, the other ranks have gone on without this one.
  return number > (meeting_ & kNumberMask) ? Verdict::kFailed : Verdict::kNone;
}

// Writes the verdict unless there is one; the first one stands. Without the
// first member's page the members cannot agree any more.
GroupBoard::Verdict GroupBoard::decide(Verdict mine) {
  GroupPage* const page = meeting_page(0);
  if (page == nullptr) return Verdict::kFailed;
  std::atomic<uint64_t>& word = page->notes[meeting_ % 2].verdict;
  // The word that is replaced is the one that was looked at: a verdict that
  // comes in between stands.
  uint64_t old = word.load(kAcquire);
  for (;;) {
    if (const Verdict given = verdict_in(old); given != Verdict::kNone)
      return given;
    if (old >> 32 != place_.uid >> 32) return Verdict::kFailed;
    if (word.compare_exchange_strong(
            old, word_of(place_.uid, meeting_, static_cast<uint64_t>(mine)),
            std::memory_order_acq_rel))
      return mine;
  }
}

std::optional<std::string> GroupBoard::read_note(int rank) {
  const GroupPage* const page = meeting_page(rank);
  if (page == nullptr) return std::nullopt;
  const Note& note = page->notes[meeting_ % 2];
  if (note.number.load(kAcquire) != meeting_) return std::nullopt;
  std::array<uint64_t, Note::kWords> words;
  for (size_t i = 0; i < words.size(); ++i)
    words[i] = note.words[i].load(kAcquire);
  const size_t bytes =
      std::min<size_t>(note.bytes.load(kAcquire), Note::kMostBytes);
  if (note.number.load(std::memory_order_relaxed) != meeting_)
    return std::nullopt;
  return std::string(reinterpret_cast<const char*>(words.data()), bytes);
}

std::optional<GroupBoard::Notes> GroupBoard::meet(absl::string_view text,
                                                  Deadline deadline,
                                                  Attendant& attendant) {
  ++meeting_;
  show_note(text);
  const absl::Cleanup pass = [this] { pass_meeting(); };
  try {
    if (!wait_for_verdict(deadline, attendant)) return std::nullopt;
  } catch (const std::bad_alloc&) {
    base::guarded("", [&] {
      attendant.gives_up({}, located({.reason = Reason::kAborted,
                                      .what = "a rank has no memory",
                                      .ranks = {place_.rank}}));
      return absl::OkStatus();
    }).IgnoreError();
    // Either the other ranks fail with this one, or they have agreed already.
    if (decide(Verdict::kFailed) == Verdict::kFailed) throw;
    if (!wait_for_verdict(deadline, attendant)) return std::nullopt;
  }
  return std::move(notes_);
}

// Waits for the verdict. True: the members agree, and all notes are there.
bool GroupBoard::wait_for_verdict(Deadline deadline, Attendant& attendant) {
  notes_.clear();
  Patience patience(board_->oversubscribed_);
  Deadline report = Deadline::after(kReportEvery);
  for (;;) {
    // The verdict is read first: once it is "agreed", all notes can be read.
    const Verdict now = verdict();
    while (notes_.size() < place_.global_ranks.size()) {
      std::optional<std::string> note =
          read_note(static_cast<int>(notes_.size()));
      if (!note.has_value()) break;
      notes_.push_back(*std::move(note));
    }
    if (notes_.size() == place_.global_ranks.size())
      return decide(Verdict::kAgreed) == Verdict::kAgreed;
    if (now == Verdict::kFailed) return false;
    if (!patience.wait()) continue;
    const bool late = deadline.passed();
    std::optional<ErrorInfo> lost = lost_one();
    if (!lost.has_value()) lost = left_one();
    if (!lost.has_value()) lost = attendant.stops();
    if (late || lost.has_value()) {
      // All notes had been there, and one is gone: this rank was too slow to
      // read it.
      if (now != Verdict::kNone) return false;
      attendant.gives_up(not_noted(), late ? std::nullopt : std::move(lost));
      if (decide(Verdict::kFailed) == Verdict::kFailed) return false;
    } else if (report.passed()) {
      attendant.waits_for(not_noted());
      report = Deadline::after(kReportEvery);
    }
  }
}

// Marks the meeting as passed, unless another thread has ended the group.
void GroupBoard::pass_meeting() {
  uint64_t before = page_->met.load(std::memory_order_relaxed);
  if (before != kClosed)
    page_->met.compare_exchange_strong(before, meeting_, kRelease,
                                       std::memory_order_relaxed);
}

// A member that has ended the group will not come any more; nor will this rank.
std::optional<ErrorInfo> GroupBoard::left_one() {
  const auto left = [&](int rank) {
    return located({.reason = Reason::kGroupClosed,
                    .what = "a rank has ended the group",
                    .ranks = {rank}});
  };
  if (page_->met.load(kAcquire) == kClosed) return left(place_.rank);
  for (const Member& member : members_)
    if (!has_noted(member.rank) && has_met(member, kClosed))
      return left(member.rank);
  return std::nullopt;
}

bool GroupBoard::refuse_meeting() {
  ++meeting_;
  const bool refused = decide(Verdict::kFailed) == Verdict::kFailed;
  pass_meeting();
  return refused;
}

// A member that has closed its group page has passed the meeting too. Another
// thread may be in a meeting.
bool GroupBoard::has_met(const Member& member, uint64_t meeting) const {
  if (const GroupPage* const page = find_page(member); page != nullptr)
    return page->met.load(kAcquire) >= meeting;
  return board_->front(member.who->area).state.load(kAcquire) !=
         AreaState::kNotYet;
}

void GroupBoard::enter_close_barrier() { page_->met.store(kClosed, kRelease); }

bool GroupBoard::wait_for_close_barrier(Deadline deadline) {
  Patience patience(board_->oversubscribed_);
  for (const Member& member : members_)
    while (!has_met(member, kClosed))
      if (patience.wait() && deadline.passed()) return false;
  return true;
}

// Other ranks may still read the last note and, in the first member's page, its
// verdict.
void GroupBoard::end_meetings() {
  if (meeting_ == 0) return;
  const Deadline patience_ends = Deadline::after(kLeaveTime);
  Patience patience(board_->oversubscribed_);
  for (const Member& member : members_)
    while (!has_met(member, meeting_))
      if (patience.wait() && (patience_ends.passed() || lost_one().has_value()))
        return;
}

}  // namespace distwrap::comm
