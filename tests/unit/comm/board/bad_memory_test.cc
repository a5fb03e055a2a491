// The memory of the board is the neighbours' as well: nothing in it may hurt,
// in their part or in one's own.
#include "base/error.h"
#include "board_fixture.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <iterator>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace distwrap::comm {
namespace {

constexpr uint64_t kUid = 77;

// A rank whose only neighbour is the test, which may write all of the memory.
class BadMemory : public testing::Test {
 protected:
  void begin(absl::Duration heartbeat, absl::Duration straggler) {
    absl::StatusOr<DescriptorHandover> door = DescriptorHandover::open();
    ASSERT_TRUE(door.ok());
    const std::string name = door->name();
    const std::vector<BoardOffer> offers = {{"here", name, 1},
                                            {"here", "x", 2}};
    auto board = Board::meet({.rank = 0,
                              .heartbeat = heartbeat,
                              .watchdog = rank_.watchdog,
                              .straggler = straggler},
                             *std::move(door), offers, Deadline::after(kLong));
    ASSERT_TRUE(board.ok()) << board.status();
    rank_.board = *std::move(board);
    open_lane();
    auto taken = ask_at(name, 0, {1, 2}, Deadline::after(kLong));
    ASSERT_TRUE(taken.ok()) << taken.status();
    auto memory = HostMemory::adopt(*std::move(taken), 2);
    ASSERT_TRUE(memory.ok()) << memory.status();
    memory_ = *std::move(memory);
    for (const size_t area : {0u, 1u}) {
      ASSERT_TRUE(memory_->reserve(&memory_->area(area).front).ok());
      for (const GroupPage& group_board : memory_->area(area).groups)
        ASSERT_TRUE(memory_->reserve(&group_board).ok());
    }
  }
  void open_lane() {
    rank_.group_board.reset();
    rank_.group_board = GroupBoard::open(rank_.board, {"g", kUid, 0, {0, 1}});
    rank_.group_board->tell(&rank_.ear);
  }
  Area& theirs() { return memory_->area(1); }
  static std::atomic<uint64_t>* words(Area& area) {
    return reinterpret_cast<std::atomic<uint64_t>*>(&area);
  }
  static constexpr size_t kWords = sizeof(Area) / 8;

  Rank rank_;
  std::unique_ptr<HostMemory> memory_;
};

TEST_F(BadMemory, NonsenseFromANeighbourHurtsNobody) {
  begin(absl::Milliseconds(200), absl::Milliseconds(1));
  rank_.call(waiting(DW_OP_BARRIER, 0, 1), "a\nb");
  uint64_t state = 12345;
  for (int round = 0; round < 20; ++round) {
    for (size_t i = 0; i < kWords; ++i)
      words(theirs())[i].store(round % 2 == 0 ? kUid : state = mix(state + i));
    theirs().front.state.store(AreaState::kOpen);
    absl::SleepFor(absl::Milliseconds(20));
  }
  // The neighbour is considered dead or in a different call.
  EXPECT_TRUE(rank_.ear.wait(kLong).has_value());
}

// The error is about this group, whatever was read.
void expect_named(const ErrorInfo& info) {
  EXPECT_TRUE(info.reason == Reason::kCallMismatch ||
              info.reason == Reason::kPeerLost ||
              info.reason == Reason::kAborted);
  EXPECT_EQ(info.group, "g");
  for (const int rank : info.ranks) EXPECT_TRUE(rank == 0 || rank == 1);
  const std::string line(base::make_error(info).message());
  EXPECT_TRUE(std::none_of(line.begin(), line.end(), [](unsigned char c) {
    return c < ' ';
  })) << line;
}

struct Silent final : GroupBoard::Attendant {
  void waits_for(const std::vector<int>&) override {}
  std::optional<ErrorInfo> stops() override { return std::nullopt; }
  void gives_up(const std::vector<int>&, std::optional<ErrorInfo>) override {}
} silent;

// A written value that stays does not keep a meeting waiting for ever: any
// verdict, without the notes.
TEST_F(BadMemory, AFalseVerdictEndsAMeetingAtItsDeadline) {
  begin(kLong, absl::InfiniteDuration());
  GroupPage& mine = memory_->area(0).groups[0];
  for (uint64_t what = 0; what < 4; ++what) {
    open_lane();
    for (Note& note : mine.notes) note.verdict.store(1u << 2 | what);
    EXPECT_FALSE(
        rank_.group_board
            ->meet("x", Deadline::after(absl::Milliseconds(20)), silent)
            .has_value());
  }
}

// A neighbour that writes over every word, of this rank's area too, while calls
// run: plausible numbers among random ones, so that all of it is read.
TEST_F(BadMemory, WritingOverAllOfItWhileCallsRunIsAtMostAnError) {
  begin(absl::Milliseconds(50), absl::Milliseconds(1));
  std::atomic<bool> over{false};
  std::thread scribbler([&] {
    uint64_t state = 999;
    const auto next = [&] { return state = mix(state + 1); };
    while (!over) {
      Area& area = memory_->area(next() % 4 == 0 ? 0 : 1);
      // Mostly where something is read.
      const size_t most =
          next() % 8 == 0 ? kWords : 4 * kPageBytes / sizeof(uint64_t);
      for (int times = 0; times < 2000; ++times) {
        const uint64_t plain[] = {0, 1, 2, kUid, next() % 64, next(), ~0ull};
        words(area)[next() % most].store(plain[next() % std::size(plain)],
                                         std::memory_order_relaxed);
      }
      area.front.state.store(AreaState::kOpen);
      if (next() % 4 != 0) area.front.groups[next() % 4].store(kUid);
    }
  });
  const int64_t counts[] = {3, 4};
  size_t found = 0;
  const Deadline end = Deadline::after(absl::Seconds(2));
  while (!end.passed()) {
    open_lane();
    if (rank_.group_board == nullptr) continue;  // all places seem to be taken
    for (uint64_t seq = 1; seq <= 60; ++seq) {
      dw_op op = waiting(seq % 3 == 0 ? DW_OP_BARRIER : DW_OP_ALL_REDUCE, 8, 1);
      op.seq = seq;
      if (seq % 3 == 1) {
        op.kind = DW_OP_ALL_TO_ALL;
        op.flags |= DW_FLAG_PER_RANK;
        op.in.counts = op.out.counts = counts;
      }
      rank_.call(op, "step");
      if (const auto info = rank_.group_board->ask(); info.has_value()) {
        ++found;
        expect_named(*info);
      }
      for (const RankSeen& seen : rank_.group_board->missing(seq)) {
        EXPECT_EQ(seen.rank, 1);
        EXPECT_GE(seen.since, absl::ZeroDuration());
      }
      rank_.group_board->returned();
    }
    // Notes of any length, verdicts of any kind.
    for (int meeting = 0; meeting < 3; ++meeting)
      if (const auto notes = rank_.group_board->meet(
              "x", Deadline::after(absl::Milliseconds(1)), silent);
          notes.has_value()) {
        ASSERT_EQ(notes->size(), 2u);
        for (const std::string& note : *notes)
          EXPECT_LE(note.size(), Note::kMostBytes);
      }
    rank_.call(waiting(DW_OP_BARRIER, 0, 61));
    absl::SleepFor(absl::Milliseconds(30));  // looks of the session's thread
  }
  over = true;
  scribbler.join();
  EXPECT_GT(found, 0u);
  if (const auto info = rank_.ear.wait(absl::ZeroDuration()); info.has_value())
    expect_named(*info);
  for (const GroupBoard::Stuck& stuck :
       rank_.ear.waits(0, absl::ZeroDuration()))
    EXPECT_EQ(stuck.text.find('\n'), std::string::npos);
}

// The lock by which the others know that this rank lives stands among other
// locks of its thread, by pointers: they are not where a neighbour can write.
TEST_F(BadMemory, WhoseOwnAreaIsOverwrittenCanLeave) {
  for (const uint64_t word :
       {uint64_t{0x4141'4141'4141'4141}, uint64_t{0}, ~uint64_t{0}}) {
    begin(kLong, absl::InfiniteDuration());
    absl::SleepFor(kLooks);  // the lock is held by now
    Area& mine = memory_->area(0);
    for (size_t i = 0; i < kPageBytes / 8; ++i) words(mine)[i].store(word);
    rank_.group_board.reset();
    rank_.board->leave();
    EXPECT_EQ(mine.front.state.load(), AreaState::kClosed);
    rank_.board.reset();
  }
}

// Times of a neighbour are only told, never waited for.
TEST_F(BadMemory, TimesOfAnotherClockAreNeverNegativeNorInTheFuture) {
  begin(kLong, absl::InfiniteDuration());
  const int64_t now = Deadline::now_ns();
  constexpr int64_t kHour = 3600'000'000'000;
  const int64_t earlier = now / 2;  // the clock began when the machine did
  GroupPage& group_board = theirs().groups[0];
  group_board.entries[1].number.store(1);
  group_board.last.store(1);
  theirs().front.groups[0].store(kUid);
  theirs().front.state.store(AreaState::kOpen);
  for (const bool inside : {true, false}) {
    group_board.inside.store(inside ? 1 : 0);
    group_board.pending.store(inside ? 1 : 0);
    for (const int64_t time :
         {std::numeric_limits<int64_t>::min(), -kHour, int64_t{-1}, int64_t{0},
          int64_t{1}, earlier, now + kHour,
          std::numeric_limits<int64_t>::max()}) {
      group_board.since_ns.store(time);
      group_board.moved_ns.store(time);
      const std::vector<RankSeen> missing = rank_.group_board->missing(2);
      ASSERT_EQ(missing.size(), 1u);
      EXPECT_EQ(missing[0].doing,
                inside ? RankSeen::Doing::kInside : RankSeen::Doing::kDone);
      EXPECT_GE(missing[0].since, absl::ZeroDuration()) << time;
      EXPECT_LE(missing[0].since, absl::Nanoseconds(Deadline::now_ns()))
          << time;
      if (time == earlier) {
        EXPECT_GE(missing[0].since, absl::Nanoseconds(now - earlier));
      }
    }
  }
}

}  // namespace
}  // namespace distwrap::comm
