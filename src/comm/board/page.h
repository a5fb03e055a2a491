// The layout of the memory that the ranks of a host share, word by word.
//
//   one sealed memfd
//     area of rank 0, 1, ...  | front | group page 0 | group page 1 | ...
//
// Each rank writes only its own area and reads the others'. The front and each
// group page have one page of memory, reserved before its first use. A rank
// takes any free group page for a group; the others find it by the group's uid
// in the front. A value from another rank's area is only compared, or checked
// before it is used as a place.
//
//   word                written                              order
//   FrontPage::state    once open, once closed               release, acquire
//   FrontPage::life     held by the session's thread         liveness_mutex.h
//   FrontPage::beats    at each look of that thread          relaxed
//   FrontPage::refused  at each look of that thread          relaxed
//   FrontPage::groups   the uid, once the group page is set  release, acquire
//   FrontPage::broken   when a group fails; stays            release, acquire
//   FrontPage::facts    before `state` is open               by `state`
//   GroupPage::last     after the entry                      release, acquire
//   GroupPage::inside   as a caller begins and ends to wait  release, acquire
//   GroupPage::aside    at a look                            release, acquire
//   GroupPage::pending  at a look: 0, since, number          release, acquire
//   GroupPage::moved    at a look, when `last` has changed   relaxed
//   GroupPage::told     when this rank has reported          release, acquire
//   GroupPage::met      once it has read all notes           release, acquire
//   GroupPage::facts    before the uid in the front          by `groups`
//   GroupPage::counts   before the entry: 0, counts, number  release, acquire
//   Entry::number       0, the rest, then the number         release, acquire
//   Arrival::number     0, the time, then the number         release, acquire
//   Note::number        after the rest of the note           release, acquire
//   Note::verdict       by any member, on rank 0's page      acq_rel, acquire
//
// meeting.cc explains verdicts.
#ifndef DISTWRAP_SRC_COMM_BOARD_PAGE_H_
#define DISTWRAP_SRC_COMM_BOARD_PAGE_H_

#include "comm/board/liveness_mutex.h"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace distwrap::comm {

inline constexpr size_t kPageBytes = 4096;
// The number of group pages of a rank. Further groups are not watched.
inline constexpr size_t kMostGroupPages = 255;
inline constexpr size_t kAreaBytes = (1 + kMostGroupPages) * kPageBytes;

// Stands at the front of every area in use, so that another version of the
// library recognises the layout.
inline constexpr uint64_t kBoardLayout = 0x3964'7262'7764;  // "dwbrd9"

enum class AreaState : uint32_t { kNotYet, kOpen, kClosed };

// A rank's identity, as people read it.
struct RankFacts {
  uint64_t layout;  // kBoardLayout
  uint64_t job;     // the uid of the world
  int32_t rank, world_size;
  std::array<char, 64> host;  // ends with zeros, or is cut
  int32_t guard;              // GuardMode: the wish of the rank's session
  int32_t has_door;           // 1: a door is loaded that can refuse calls
};

// A group's identity, as people read it.
struct GroupFacts {
  int32_t rank, size;  // the rank whose group page it is
  std::array<char, 56> name;
};

struct FailedGroup {
  std::atomic<uint64_t> uid;
  std::atomic<int64_t> since_ns;  // CLOCK_MONOTONIC; set before `uid`
};

struct alignas(kPageBytes) FrontPage {
  std::atomic<AreaState> state;
  int32_t pid;
  alignas(64) std::atomic<uint64_t> beats;
  std::atomic<uint64_t> refused;  // direct calls that the process's door saw
  // The group's uid for each group page; 0: the page is free.
  alignas(64) std::array<std::atomic<uint64_t>, kMostGroupPages> groups;
  RankFacts facts;
  // The last groups that failed or were aborted on this rank, which makes them
  // fail on all ranks. The entries stay when their group pages are closed,
  // perhaps at once.
  std::array<FailedGroup, 32> broken;
  std::array<char, 1312> unused;
  LivenessWords life;  // ends the page
};
static_assert(sizeof(FrontPage) == kPageBytes);
static_assert(offsetof(FrontPage, life) == kPageBytes - sizeof(LivenessWords));

// A collective as this rank called it; the other ranks' calls have to equal it.
struct alignas(64) Entry {
  std::atomic<uint64_t> number;   // 0: nothing, or being written
  std::atomic<uint64_t> history;  // a print of all calls up to this one
  std::atomic<uint64_t> balance;  // balance up to it; see pair_counts.h
  std::atomic<uint64_t> what;     // for people: SeenCall::what
  std::atomic<int64_t> count;     // for people
  std::array<std::atomic<uint64_t>, 3>
      label;  // first 24 characters of the label
};
static_assert(sizeof(Entry) == 64);

// The counts that pairs of ranks exchange in the last such calls; see
// pair_counts.h.
struct alignas(64) ShownCounts {
  static constexpr size_t kWords = 256;
  std::array<std::atomic<uint32_t>, kWords> words;
};

// A member's vote in a meeting of the group.
struct alignas(64) Note {
  static constexpr size_t kWords = 29;
  static constexpr size_t kMostBytes = kWords * 8;
  std::atomic<uint64_t> number;   // number of the meeting
  std::atomic<uint64_t> verdict;  // the member's verdict
  std::atomic<uint64_t> bytes;
  std::array<std::atomic<uint64_t>, kWords> words;
};
static_assert(sizeof(Note) == 256);

// When this rank came to a call that is made of several operations.
struct Arrival {
  std::atomic<uint64_t> number;  // the caller's own; 0: nothing
  std::atomic<int64_t> at_ns;    // CLOCK_MONOTONIC
};

struct alignas(kPageBytes) GroupPage {
  static constexpr size_t kEntries = 32;  // a power of two: found by a mask
  static constexpr size_t kArrivals = 16;
  alignas(64) std::atomic<uint64_t> last;  // number of the newest entry
  std::atomic<uint64_t> inside;  // the call whose caller waits; 0: none
  // The oldest collective that ran beside its caller at the last look; 0: none.
  std::atomic<uint64_t> aside;
  // The oldest collective that had not ended at the last look, 0 for none, and
  // the time when that was seen first. Times are of the host's monotonic clock.
  std::atomic<uint64_t> pending;
  std::atomic<int64_t> since_ns;
  std::atomic<int64_t> moved_ns;  // when `last` was seen first
  // The collective for which this rank has reported missing ranks.
  std::atomic<uint64_t> told;
  // The meeting that this rank has been through; all ones: the last one.
  std::atomic<uint64_t> met;
  alignas(64) GroupFacts facts;
  std::array<Entry, kEntries> entries;  // number n at n % kEntries
  ShownCounts counts;
  std::array<Note, 2> notes;                // note of meeting n at n % 2
  std::array<Arrival, kArrivals> arrivals;  // number n at n % kArrivals
};
static_assert(sizeof(GroupPage) == kPageBytes);

// The call that a rank is in, as another rank sees it.
struct Entered {
  uint64_t number = 0;   // 0: in none
  int64_t since_ns = 0;  // 0: not known

  static Entered of(const GroupPage& page) {
    constexpr auto kOrder = std::memory_order_acquire;
    Entered entered{page.inside.load(kOrder)};
    if (entered.number == 0) entered.number = page.aside.load(kOrder);
    if (entered.number != 0 && entered.number == page.pending.load(kOrder))
      entered.since_ns = page.since_ns.load(kOrder);
    return entered;
  }
};

struct Area {
  FrontPage front;
  std::array<GroupPage, kMostGroupPages> groups;
};
static_assert(sizeof(Area) == kAreaBytes);

}  // namespace distwrap::comm

#endif  // DISTWRAP_SRC_COMM_BOARD_PAGE_H_
