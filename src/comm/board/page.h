// What lies in the memory that the ranks of a host share, word by word.
//
//   one sealed memfd
//     area of rank 0, 1, ...  | front | lane 0 | lane 1 | ...
//
// Each rank writes its own area only and reads the others'. A front and each
// lane are one page, made really there before it is used. A group of a rank has
// a lane, wherever one is free; the others find it by the group's uid in the
// front. What is read from another's area is a number to compare, or is checked
// before it is a place.
//
// | word              | written                        | order            |
// | ----------------- | ------------------------------ | ---------------- |
// | FrontPage::state  | once open, once closed         | release, acquire |
// | FrontPage::life   | held by the session's thread   | see life.h       |
// | FrontPage::beats  | at each look of that thread    | relaxed          |
// | FrontPage::lanes  | the uid, once the lane is set  | release, acquire |
// | FrontPage::broken | when a group fails, and stays  | release, acquire |
// | FrontPage::facts  | before `state` is open         | by `state`       |
// | LanePage::last    | after the entry                | release, acquire |
// | LanePage::inside  | as a caller begins, ends to    | release, acquire |
// |                   | wait                           |                  |
// | LanePage::aside   | at a look                      | release, acquire |
// | LanePage::pending | at a look: 0, since, number    | release, acquire |
// | LanePage::moved   | at a look, when `last` has     | relaxed          |
// | LanePage::told    | when this rank has spoken      | release, acquire |
// | LanePage::met     | once it has read all notes     | release, acquire |
// | LanePage::facts   | before the uid in the front    | by `lanes`       |
// | Entry::number     | 0, the rest, then the number   | release, acquire |
// | Note::number      | after the rest of the note     | release, acquire |
// | Note::verdict     | by any member, in the first    | acq_rel, acquire |
// |                   | one's page; see meeting.cc     |                  |
// | LanePage::counts  | before the entry; its own      | release, acquire |
// |                   | number first 0, at last set    |                  |
#ifndef DISTWRAP_SRC_COMM_BOARD_PAGE_H_
#define DISTWRAP_SRC_COMM_BOARD_PAGE_H_

#include "comm/board/life.h"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace distwrap::comm {

inline constexpr size_t kPageBytes = 4096;
// Of a rank: groups beyond are not watched.
inline constexpr size_t kMostLanes = 255;
inline constexpr size_t kAreaBytes = (1 + kMostLanes) * kPageBytes;

// In front of every area that is in use, for readers of another version.
inline constexpr uint64_t kBoardLayout = 0x3764'7262'7764;  // "dwbrd7"

enum class AreaState : uint32_t { kNotYet, kOpen, kClosed };

// Who a rank is, for people.
struct RankFacts {
  uint64_t layout;  // kBoardLayout
  uint64_t job;     // the uid of the world
  int32_t rank, world_size;
  std::array<char, 64> host;  // ends with zeros, or is cut
};

// What a group is, likewise.
struct GroupFacts {
  int32_t rank, size;  // of the one whose lane it is
  std::array<char, 56> name;
};

struct FailedGroup {
  std::atomic<uint64_t> uid;
  std::atomic<int64_t> since_ns;  // of CLOCK_MONOTONIC; set before `uid`
};

struct alignas(kPageBytes) FrontPage {
  std::atomic<AreaState> state;
  int32_t pid;
  alignas(64) std::atomic<uint64_t> beats;
  // By lane; 0: free.
  alignas(64) std::array<std::atomic<uint64_t>, kMostLanes> lanes;
  RankFacts facts;
  // The last groups that have failed here, or were aborted: so they have
  // everywhere. They stay when their lanes go, which may be at once.
  std::array<FailedGroup, 32> broken;
  std::array<char, 1320> unused;
  LifeWords life;  // ends the page
};
static_assert(sizeof(FrontPage) == kPageBytes);
static_assert(offsetof(FrontPage, life) == kPageBytes - sizeof(LifeWords));

// A collective, as the others have to have it too.
struct alignas(64) Entry {
  std::atomic<uint64_t> number;                // 0: nothing, or being written
  std::atomic<uint64_t> history;               // of all calls up to this one
  std::atomic<uint64_t> balance;               // likewise; see pair_counts.h
  std::atomic<uint64_t> what;                  // for people: SeenCall::what
  std::atomic<int64_t> count;                  // likewise
  std::array<std::atomic<uint64_t>, 3> label;  // its first 24 characters
};
static_assert(sizeof(Entry) == 64);

// What pairs of ranks send each other in the last such calls; see
// pair_counts.h.
struct alignas(64) ShownCounts {
  static constexpr size_t kWords = 256;
  std::array<std::atomic<uint32_t>, kWords> words;
};

// What a member says in a meeting of the group.
struct alignas(64) Note {
  static constexpr size_t kWords = 29;
  static constexpr size_t kMostBytes = kWords * 8;
  std::atomic<uint64_t> number;   // of the meeting
  std::atomic<uint64_t> verdict;  // of a meeting
  std::atomic<uint64_t> bytes;
  std::array<std::atomic<uint64_t>, kWords> words;
};
static_assert(sizeof(Note) == 256);

struct alignas(kPageBytes) LanePage {
  static constexpr size_t kEntries = 32;   // a power of two: found by a mask
  alignas(64) std::atomic<uint64_t> last;  // number of the newest entry
  std::atomic<uint64_t> inside;            // whose caller waits; 0: none
  // The oldest that ran beside its caller at the last look; 0: none.
  std::atomic<uint64_t> aside;
  // The oldest that had not ended at the last look, 0 for none, and when that
  // was seen first. Times are of the host's monotonic clock.
  std::atomic<uint64_t> pending;
  std::atomic<int64_t> since_ns;
  std::atomic<int64_t> moved_ns;  // when `last` was seen first
  // For which this rank has said who is missing.
  std::atomic<uint64_t> told;
  // The meeting that this rank has been through; all ones: the last one.
  std::atomic<uint64_t> met;
  alignas(64) GroupFacts facts;
  std::array<Entry, kEntries> entries;  // number n at n % kEntries
  ShownCounts counts;
  std::array<Note, 2> notes;  // of meeting n at n % 2
};
static_assert(sizeof(LanePage) == kPageBytes);

// What a rank is in, as another one sees it.
struct Entered {
  uint64_t number = 0;   // 0: in none
  int64_t since_ns = 0;  // 0: not known

  static Entered of(const LanePage& page) {
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
  std::array<LanePage, kMostLanes> lanes;
};
static_assert(sizeof(Area) == kAreaBytes);

}  // namespace distwrap::comm

#endif  // DISTWRAP_SRC_COMM_BOARD_PAGE_H_
