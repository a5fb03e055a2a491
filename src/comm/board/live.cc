#include "comm/board/live.h"

#include "base/error.h"
#include "comm/board/liveness_mutex.h"
#include "comm/board/page.h"
#include "comm/board/seen_call.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <memory>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace distwrap::comm {
namespace {

// More ranks than any host has; it bounds what a reader does.
constexpr off_t kMostAreas = 4096;
constexpr auto kOrder = std::memory_order_relaxed;

// A page of the memory, copied. Its words may be of different moments.
template <class Page>
class Copy {
 public:
  Copy() : page_(static_cast<Page*>(::operator new(sizeof(Page), kAlign))) {}
  ~Copy() { ::operator delete(page_, kAlign); }
  Copy(const Copy&) = delete;
  Copy& operator=(const Copy&) = delete;

  bool read(int memory, size_t at) {
    for (;;) {
      const ssize_t got =
          pread(memory, page_, sizeof(Page), static_cast<off_t>(at));
      if (got >= 0 || errno != EINTR)
        return got == static_cast<ssize_t>(sizeof(Page));
    }
  }
  const Page* operator->() const { return page_; }

 private:
  static constexpr std::align_val_t kAlign{alignof(Page)};
  Page* const page_;
};

absl::Status no_board(std::string actual) {
  return base::make_error(
      {.reason = Reason::kRefused,
       .what = "this memory is not the board of a job that uses this version",
       .expected = absl::StrCat("areas of ", kAreaBytes, " bytes that say ",
                                absl::Hex(kBoardLayout)),
       .actual = std::move(actual),
       .next_step = "use the distwrap command of the library that the job "
                    "uses"});
}

template <size_t kBytes>
std::string word(const std::array<char, kBytes>& text) {
  return seen_word({text.data(), text.size()});
}

LiveGroup group_of(uint64_t uid, const GroupPage& page) {
  LiveGroup group;
  group.uid = uid;
  group.name = word(page.facts.name);
  group.rank = page.facts.rank;
  group.size = page.facts.size;
  group.last = page.last.load(kOrder);
  const auto [number, entered_ns] = Entered::of(page);
  group.inside = number;
  const int64_t since_ns =
      number != 0 ? entered_ns : page.moved_ns.load(kOrder);
  group.since_ns = std::max<int64_t>(since_ns, 0);
  const uint64_t shown = group.inside != 0 ? group.inside : group.last;
  const Entry& entry = page.entries[shown % GroupPage::kEntries];
  if (shown == 0 || entry.number.load(kOrder) != shown) return group;
  group.call =
      SeenCall{0, entry.what.load(kOrder), entry.count.load(kOrder)}.text();
  std::array<uint64_t, 3> label;
  for (size_t i = 0; i < label.size(); ++i)
    label[i] = entry.label[i].load(kOrder);
  group.label =
      seen_word({reinterpret_cast<const char*>(label.data()), sizeof label});
  return group;
}

LiveRank rank_of(const FrontPage& front) {
  LiveRank rank;
  rank.rank = front.facts.rank;
  rank.pid = front.pid;
  rank.host = word(front.facts.host);
  rank.guard = front.facts.guard;
  rank.has_door = front.facts.has_door == 1;
  rank.refused = front.refused.load(kOrder);
  switch (front.state.load(kOrder)) {
    case AreaState::kOpen:
      rank.state = has_ended(front.life) ? LiveRank::State::kEnded
                                         : LiveRank::State::kRuns;
      break;
    case AreaState::kClosed:
      rank.state = LiveRank::State::kLeft;
      break;
    default:
      break;
  }
  return rank;
}

}  // namespace

absl::StatusOr<LiveBoard> LiveBoard::read(int memory) {
  struct stat found = {};
  if (fstat(memory, &found) != 0) return no_board(base::errno_text(errno));
  const auto bytes = static_cast<size_t>(found.st_size);
  if (found.st_size <= 0 || bytes % kAreaBytes != 0 ||
      found.st_size / static_cast<off_t>(kAreaBytes) > kMostAreas)
    return no_board(absl::StrCat(found.st_size, " bytes"));
  LiveBoard board;
  Copy<FrontPage> front;
  Copy<GroupPage> group_board;
  for (size_t area = 0; area < bytes; area += kAreaBytes) {
    if (!front.read(memory, area)) return no_board("it cannot be read");
    board.ranks.emplace_back();
    // A rank that has not come has a page of zeros.
    if (front->facts.layout == 0 &&
        front->state.load(kOrder) == AreaState::kNotYet)
      continue;
    if (front->facts.layout != kBoardLayout)
      return no_board(
          absl::StrCat("one that says ", absl::Hex(front->facts.layout)));
    LiveRank& rank = board.ranks.back();
    rank = rank_of(*front.operator->());
    if (board.job == 0) {
      board.job = front->facts.job;
      board.world_size = front->facts.world_size;
    }
    for (size_t place = 0; place < kMostGroupPages; ++place) {
      const uint64_t uid = front->groups[place].load(kOrder);
      if (uid == 0) continue;
      if (!group_board.read(memory, area + (1 + place) * kPageBytes))
        return no_board("it cannot be read");
      rank.groups.push_back(group_of(uid, *group_board.operator->()));
    }
  }
  return board;
}

void LiveBoard::add_told(const LiveBoard& told) {
  for (const LiveRank& heard : told.ranks) {
    if (heard.state == LiveRank::State::kStarting) continue;
    const auto known =
        std::find_if(ranks.begin(), ranks.end(), [&](const LiveRank& rank) {
          return rank.is_told && rank.rank == heard.rank;
        });
    if (known == ranks.end()) {
      ranks.push_back(heard);
      ranks.back().is_told = true;
      continue;
    }
    // Several ranks of this host have heard of it, one perhaps less.
    for (const LiveGroup& group : heard.groups) {
      const auto same = std::find_if(
          known->groups.begin(), known->groups.end(),
          [&](const LiveGroup& one) { return one.uid == group.uid; });
      if (same == known->groups.end())
        known->groups.push_back(group);
      else if (std::pair(same->last, same->inside) <
               std::pair(group.last, group.inside))
        *same = group;
    }
  }
}

}  // namespace distwrap::comm
