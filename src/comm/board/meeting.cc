// Meetings of a group's members over the board: each writes a note in its own
// page and waits until it sees all others'.
//
// Notes have two places, used in turns. A member that writes its note of
// meeting n + 2 over that of n has been through n + 1, in which everybody was,
// having read the notes of n before.
//
// What became of a meeting is one word, in the page of the group's first
// member: whoever sees all notes there, or cannot wait longer, tries to write
// it, and all go by what the first of them has written. It carries a part of
// the group's uid, for a page that meanwhile belongs to another group.
#include "comm/board/lane.h"

#include <algorithm>
#include <cstring>
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

// In place of a meeting's number, once there are no more.
constexpr uint64_t kGoodbye = UINT64_MAX;

constexpr absl::Duration kReportEvery = absl::Seconds(5);

// For members that are in the middle of a meeting which has been decided.
constexpr absl::Duration kLeaveTime = absl::Milliseconds(50);

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

// Between two looks: nothing at first, then other threads' turns, then sleep,
// which at its longest is a millisecond. With more ranks than processors
// whoever is awaited may need this one: hardly anything, then.
class Patience {
 public:
  explicit Patience(bool crowded) : spins_(crowded ? 20 : 200) {}
  // Whether so long has passed that it is time to look for another end.
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

void Lane::open_meetings(LanePage* page) const {
  for (Note& note : page->notes) {
    note.number.store(0, std::memory_order_relaxed);
    note.verdict.store(word_of(place_.uid, 0, 0), std::memory_order_relaxed);
  }
}

// Null as long as the member has not opened its lane, and when it has closed
// it.
LanePage* Lane::meeting_page(int rank) {
  if (rank == place_.rank) return page_;
  const auto at = static_cast<size_t>(rank);
  const Member& member = members_[at - (rank > place_.rank ? 1 : 0)];
  meeting_pages_.resize(place_.global_ranks.size());
  LanePage*& page = meeting_pages_[at];
  const Area& area = board_->memory_->area(member.who->area);
  if (page == nullptr ||
      area.front.lanes[static_cast<size_t>(page - area.lanes.data())].load(
          kAcquire) != place_.uid)
    page = find_page(member);
  return page;
}

LanePage* Lane::find_page(const Member& member) const {
  Area& area = board_->memory_->area(member.who->area);
  if (area.front.state.load(kAcquire) == AreaState::kNotYet) return nullptr;
  for (size_t place = 0; place < kMostLanes; ++place)
    if (area.front.lanes[place].load(kAcquire) == place_.uid)
      return &area.lanes[place];
  return nullptr;
}

void Lane::show_note(absl::string_view text) {
  Note& note = page_->notes[meeting_ % 2];
  const size_t bytes = std::min(text.size(), Note::kMostBytes);
  std::array<uint64_t, Note::kWords> words = {};
  if (bytes != 0) std::memcpy(words.data(), text.data(), bytes);
  for (size_t i = 0; i * 8 < bytes; ++i)
    note.words[i].store(words[i], std::memory_order_relaxed);
  note.bytes.store(bytes, std::memory_order_relaxed);
  note.number.store(meeting_, kRelease);
}

bool Lane::has_noted(int rank) {
  const LanePage* const page = meeting_page(rank);
  return page != nullptr &&
         page->notes[meeting_ % 2].number.load(kAcquire) >= meeting_;
}

std::vector<int> Lane::not_noted() {
  std::vector<int> missing;
  for (int rank = 0; rank < size(); ++rank)
    if (!has_noted(rank)) missing.push_back(rank);
  return missing;
}

std::optional<ErrorInfo> Lane::lost_one() {
  base::MutexLock lock(board_->mutex_);
  for (Member& member : members_)
    if (member.who->fate != Board::Fate::kWell) return lost(member);
  return std::nullopt;
}

Lane::Verdict Lane::verdict() {
  const LanePage* const page = meeting_page(0);
  if (page == nullptr) return Verdict::kNone;
  const uint64_t word = page->notes[meeting_ % 2].verdict.load(kAcquire);
  if (word >> 32 != place_.uid >> 32) return Verdict::kNone;
  const uint64_t number = word >> 2 & kNumberMask;
  if (number == (meeting_ & kNumberMask)) return static_cast<Verdict>(word & 3);
  // The others have gone on without this rank.
  return number > (meeting_ & kNumberMask) ? Verdict::kFailed : Verdict::kNone;
}

// What it comes to: the first one stands. Without the first member's page
// nobody can agree any more.
Lane::Verdict Lane::decide(Verdict mine) {
  LanePage* const page = meeting_page(0);
  if (page == nullptr) return Verdict::kFailed;
  std::atomic<uint64_t>& word = page->notes[meeting_ % 2].verdict;
  for (;;) {
    if (const Verdict given = verdict(); given != Verdict::kNone) return given;
    uint64_t old = word.load(kAcquire);
    if (old >> 32 != place_.uid >> 32) return Verdict::kFailed;
    if (word.compare_exchange_strong(
            old, word_of(place_.uid, meeting_, static_cast<uint64_t>(mine)),
            std::memory_order_acq_rel))
      return mine;
  }
}

std::optional<std::string> Lane::read_note(int rank) {
  const LanePage* const page = meeting_page(rank);
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

std::optional<Lane::Notes> Lane::meet(absl::string_view text, Deadline deadline,
                                      Attendant& attendant) {
  ++meeting_;
  show_note(text);
  const bool agreed = wait_for_verdict(deadline, attendant);
  pass_meeting();
  if (!agreed) return std::nullopt;
  return std::move(notes_);
}

// With everybody's notes when it is to be.
bool Lane::wait_for_verdict(Deadline deadline, Attendant& attendant) {
  notes_.clear();
  Patience patience(board_->crowded_);
  Deadline report = Deadline::after(kReportEvery);
  for (;;) {
    // First: once all have agreed, all notes are there to be read.
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
    if (late || lost.has_value()) {
      // All had come, and a note is gone: this rank was too slow to read it.
      if (now != Verdict::kNone) return false;
      attendant.gives_up(not_noted(), late ? std::nullopt : std::move(lost));
      if (decide(Verdict::kFailed) == Verdict::kFailed) return false;
    } else if (report.passed()) {
      attendant.waits_for(not_noted());
      report = Deadline::after(kReportEvery);
    }
  }
}

// Unless another thread has ended the group meanwhile, for good.
void Lane::pass_meeting() {
  uint64_t before = page_->met.load(std::memory_order_relaxed);
  if (before != kGoodbye)
    page_->met.compare_exchange_strong(before, meeting_, kRelease,
                                       std::memory_order_relaxed);
}

// A member that has ended the group will not come any more; nor will this rank.
std::optional<ErrorInfo> Lane::left_one() {
  const auto left = [&](int rank) {
    return located({.reason = Reason::kGroupClosed,
                    .what = "a rank has ended the group",
                    .ranks = {rank}});
  };
  if (page_->met.load(kAcquire) == kGoodbye) return left(place_.rank);
  for (const Member& member : members_)
    if (!has_noted(member.rank) && has_met(member, kGoodbye))
      return left(member.rank);
  return std::nullopt;
}

bool Lane::refuse_meeting() {
  ++meeting_;
  const bool refused = decide(Verdict::kFailed) == Verdict::kFailed;
  pass_meeting();
  return refused;
}

// So has one that has closed its lane. Beside a meeting of another thread.
bool Lane::has_met(const Member& member, uint64_t meeting) const {
  if (const LanePage* const page = find_page(member); page != nullptr)
    return page->met.load(kAcquire) >= meeting;
  return board_->front(member.who->area).state.load(kAcquire) !=
         AreaState::kNotYet;
}

void Lane::say_goodbye() { page_->met.store(kGoodbye, kRelease); }

bool Lane::wait_for_goodbyes(Deadline deadline) {
  Patience patience(board_->crowded_);
  for (const Member& member : members_)
    while (!has_met(member, kGoodbye))
      if (patience.wait() && deadline.passed()) return false;
  return true;
}

// Others may still read the last note, and in the first member's page what
// became of it.
void Lane::end_meetings() {
  if (meeting_ == 0) return;
  const Deadline patience_ends = Deadline::after(kLeaveTime);
  Patience patience(board_->crowded_);
  for (const Member& member : members_)
    while (!has_met(member, meeting_))
      if (patience.wait() && (patience_ends.passed() || lost_one().has_value()))
        return;
}

}  // namespace distwrap::comm
