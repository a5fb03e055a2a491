// The board without backends: what ranks show and see. Ranks are threads here,
// each with its own mapping; ranks that end are in tests/ranks.
#include "comm/board/board.h"

#include "base/error.h"
#include "comm/board/lane.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

namespace distwrap::comm {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr dw_dtype kF32 = {2, 32, 1}, kI32 = {0, 32, 1};
// More than any of these takes, however busy the machine.
constexpr absl::Duration kLong = absl::Seconds(60);
// Many looks.
constexpr absl::Duration kLooks = absl::Milliseconds(300);

dw_op op_of(uint16_t kind, int64_t count, uint64_t seq) {
  dw_op op = {};
  op.kind = kind;
  op.peer = -1;
  op.seq = seq;
  op.in.dtype = op.out.dtype = kF32;
  op.in.count = op.out.count = count;
  if (kind == DW_OP_ALL_REDUCE) op.reduce = DW_REDUCE_SUM;
  return op;
}

// Tells of one finding, and lets a test wait for it.
class Ear final : public Lane::Listener {
 public:
  void board_found(ErrorInfo found) override {
    base::MutexLock lock(mutex_);
    ++times_;
    found_ = std::move(found);
    heard_.notify_all();
  }
  void board_waits(Lane::Stuck stuck) override {
    base::MutexLock lock(mutex_);
    waits_.push_back(std::move(stuck));
    heard_.notify_all();
  }
  std::vector<Lane::Stuck> waits(size_t n, absl::Duration patience) {
    base::MutexLock lock(mutex_);
    const Deadline deadline = Deadline::after(patience);
    while (waits_.size() < n && heard_.wait_until(mutex_, deadline)) {
    }
    return waits_;
  }
  std::optional<ErrorInfo> wait(absl::Duration patience) {
    base::MutexLock lock(mutex_);
    const Deadline deadline = Deadline::after(patience);
    while (times_ == 0 && heard_.wait_until(mutex_, deadline)) {
    }
    return found_;
  }

 private:
  base::Mutex mutex_;
  base::CondVar heard_;
  int times_ ABSL_GUARDED_BY(mutex_) = 0;
  std::optional<ErrorInfo> found_ ABSL_GUARDED_BY(mutex_);
  std::vector<Lane::Stuck> waits_ ABSL_GUARDED_BY(mutex_);
};

// One rank with its group of all.
struct Rank {
  std::shared_ptr<Watchdog> watchdog = std::make_shared<Watchdog>();
  std::shared_ptr<Board> board;
  Ear ear;
  std::unique_ptr<Lane> lane;

  void call(const dw_op& op, absl::string_view label = "") {
    lane->publish(op, label);
  }
  ~Rank() {
    lane.reset();
    if (board != nullptr) board->leave();
  }
};

std::vector<std::unique_ptr<Rank>> meet(
    int n, absl::Duration straggler = absl::InfiniteDuration()) {
  std::vector<Door> doors;
  std::vector<BoardOffer> offers;
  for (int rank = 0; rank < n; ++rank) {
    doors.push_back(*Door::open());
    offers.push_back({host_identity(), doors.back().name(),
                      1000 + static_cast<uint64_t>(rank)});
  }
  std::vector<std::unique_ptr<Rank>> ranks(static_cast<size_t>(n));
  std::vector<std::thread> threads;
  std::vector<int> all(ranks.size());
  std::iota(all.begin(), all.end(), 0);
  for (int r = 0; r < n; ++r)
    threads.emplace_back([&, r] {
      const auto at = static_cast<size_t>(r);
      ranks[at] = std::make_unique<Rank>();
      Rank& rank = *ranks[at];
      auto board =
          Board::meet({.rank = r,
                       .heartbeat = absl::Seconds(60),
                       .watchdog = rank.watchdog,
                       .straggler = straggler,
                       .job = 1000,
                       .world_size = n,
                       .host = "here"},
                      std::move(doors[at]), offers, Deadline::after(kLong));
      ASSERT_TRUE(board.ok()) << board.status();
      rank.board = *std::move(board);
      rank.lane = Lane::open(rank.board, {"g", 77, r, all}, rank.ear);
      ASSERT_NE(rank.lane, nullptr);
    });
  for (std::thread& thread : threads) thread.join();
  return ranks;
}

TEST(SeenCall, DiffersInWhateverHasToBeEqual) {
  const dw_op plain = op_of(DW_OP_ALL_REDUCE, 8, 1);
  const auto print = [](const dw_op& op) { return SeenCall::of(op, 4).print; };
  std::vector<dw_op> others(6, plain);
  others[0].kind = DW_OP_SCAN;
  others[1].in.count = 9;
  others[2].in.dtype = kI32;
  others[3].reduce = DW_REDUCE_MAX;
  others[4].flags |= DW_FLAG_PER_RANK;
  others[5].kind = DW_OP_REDUCE;
  others[5].peer = 0;
  for (size_t i = 0; i < others.size(); ++i)
    EXPECT_NE(print(others[i]), print(plain)) << i;
  dw_op other_root = others[5];
  other_root.peer = 1;
  EXPECT_NE(print(other_root), print(others[5]));
}

TEST(SeenCall, IsTheSameWhereRanksMayDiffer) {
  dw_op op = op_of(DW_OP_ALL_REDUCE, 8, 1), other = op;
  float x = 0;
  other.in.data = &x;
  other.flags |= DW_FLAG_IN_PLACE | DW_FLAG_CALLER_WAITS;
  other.timeout_ns = 5;
  EXPECT_EQ(SeenCall::of(op, 4).print, SeenCall::of(other, 4).print);
  // At the root alone there is a result, or a source.
  op = op_of(DW_OP_GATHER, 8, 1);
  other = op;
  other.out = {};
  EXPECT_EQ(SeenCall::of(op, 4).print, SeenCall::of(other, 4).print);
  // Each rank has counts of its own in a gather, and all the same in an
  // all_gather.
  const int64_t counts[] = {1, 2, 3, 4}, swapped[] = {2, 1, 3, 4};
  op = op_of(DW_OP_GATHER, 1, 1);
  op.flags = DW_FLAG_PER_RANK;
  other = op;
  other.in.count = 2;
  EXPECT_EQ(SeenCall::of(op, 4).print, SeenCall::of(other, 4).print);
  op = op_of(DW_OP_ALL_GATHER, 1, 1);
  op.flags = DW_FLAG_PER_RANK;
  op.out.counts = counts;
  other = op;
  other.in.count = 2;
  EXPECT_EQ(SeenCall::of(op, 4).print, SeenCall::of(other, 4).print);
  other.out.counts = swapped;
  EXPECT_NE(SeenCall::of(op, 4).print, SeenCall::of(other, 4).print);
}

TEST(SeenCall, SaysWhatItIs) {
  dw_op op = op_of(DW_OP_ALL_REDUCE, 1024, 1);
  op.reduce = DW_REDUCE_SUM;
  EXPECT_EQ(SeenCall::of(op, 2).text(), "all_reduce f32 x 1024 sum");
  op = op_of(DW_OP_BROADCAST, 3, 1);
  op.peer = 1;
  EXPECT_EQ(SeenCall::of(op, 2).text(), "broadcast f32 x 3 from rank 1");
  op.kind = DW_OP_GATHER;
  EXPECT_EQ(SeenCall::of(op, 2).text(), "gather f32 x 3 to rank 1");
  EXPECT_EQ(SeenCall::of(op_of(DW_OP_BARRIER, 0, 1), 2).text(), "barrier");
  // What a broken neighbour left.
  for (uint64_t what : {~uint64_t{0}, uint64_t{0}, uint64_t{0x123456789abcdef}})
    EXPECT_FALSE((SeenCall{0, what, -5}.text().empty()));
}

TEST(Handover, StrangersGetNothingAndTheMissingStayOnTheList) {
  absl::StatusOr<Door> door = Door::open();
  ASSERT_TRUE(door.ok()) << door.status();
  const std::string name = door->name();
  auto memory = HostMemory::make(3);
  ASSERT_TRUE(memory.ok()) << memory.status();
  std::vector<HostMember> guests = {{1, 11}, {2, 22}};
  std::atomic<bool> over{false};
  std::thread host([&] {
    while (!over) door->serve((*memory)->descriptor(), &guests);
  });
  const Deadline deadline = Deadline::after(kLong);
  EXPECT_TRUE(ask_at(name, 0, {1, 11}, deadline).ok());
  EXPECT_EQ(error_reason(ask_at(name, 0, {2, 99}, deadline).status()),
            Reason::kPeerLost);
  // Once is enough.
  EXPECT_EQ(error_reason(ask_at(name, 0, {1, 11}, deadline).status()),
            Reason::kPeerLost);
  over = true;
  host.join();
  ASSERT_EQ(guests.size(), 1u);
  EXPECT_EQ(guests[0].rank, 2);
  EXPECT_FALSE(ask_at("no such name", 0, {1, 11}, deadline).ok());
}

// The lowest rank goes on at once: what the others say of their start it hears
// elsewhere, and one that does not come keeps nobody.
TEST(Board, TheOneWithTheMemoryWaitsForNobody) {
  Rank rank;
  absl::StatusOr<Door> door = Door::open();
  ASSERT_TRUE(door.ok());
  const std::string name = door->name();
  auto board =
      Board::meet({0, absl::Milliseconds(200), rank.watchdog}, *std::move(door),
                  {{"here", name, 1}, {"here", "x", 2}, {"here", "y", 3}},
                  Deadline::never());
  ASSERT_TRUE(board.ok()) << board.status();
  EXPECT_TRUE(ask_at(name, 0, {2, 3}, Deadline::after(kLong)).ok());
}

TEST(Board, WhoseHostHasGivenUpHasNone) {
  std::string closed;
  {
    const absl::StatusOr<Door> door = Door::open();
    ASSERT_TRUE(door.ok());
    closed = door->name();
  }
  const auto board = Board::meet(
      {1, absl::Seconds(5), std::make_shared<Watchdog>()}, *Door::open(),
      {{"here", closed, 1}, {"here", "x", 2}}, Deadline::after(kLong));
  ASSERT_TRUE(board.ok()) << board.status();
  EXPECT_EQ(*board, nullptr);
}

TEST(HostMemory, OfAnotherSizeOrUnsealedIsRefused) {
  auto memory = HostMemory::make(2);
  ASSERT_TRUE(memory.ok());
  base::Descriptor copy(dup((*memory)->descriptor()));
  EXPECT_EQ(error_reason(HostMemory::adopt(std::move(copy), 3).status()),
            Reason::kRefused);
  EXPECT_TRUE(
      HostMemory::adopt(base::Descriptor(dup((*memory)->descriptor())), 2)
          .ok());
  EXPECT_FALSE(HostMemory::adopt(base::Descriptor(), 2).ok());
}

TEST(Board, WhoIsAloneOnAHostHasNone) {
  auto watchdog = std::make_shared<Watchdog>();
  const auto board =
      Board::meet({0, absl::Seconds(5), watchdog}, *Door::open(),
                  {{"this", "a", 1}, {"another", "b", 2}}, Deadline::never());
  ASSERT_TRUE(board.ok()) << board.status();
  EXPECT_EQ(*board, nullptr);
}

TEST(Board, EqualCallsAreWell) {
  const auto ranks = meet(3);
  for (uint64_t seq = 1; seq <= 500; ++seq)
    for (const auto& rank : ranks)
      rank->call(op_of(DW_OP_ALL_REDUCE, static_cast<int64_t>(seq), seq));
  for (const auto& rank : ranks)
    EXPECT_FALSE(rank->ear.wait(kLooks).has_value());
}

// The one that differs is named on all ranks, with both calls.
TEST(Board, ADifferenceIsTheSameErrorOnAllRanks) {
  const auto ranks = meet(3);
  for (const auto& rank : ranks) rank->call(op_of(DW_OP_BARRIER, 0, 1));
  for (size_t r = 0; r < 3; ++r)
    ranks[r]->call(op_of(DW_OP_ALL_GATHER, r == 1 ? 2048 : 1024, 2),
                   r == 1 ? "the other" : "");
  for (size_t r = 0; r < 3; ++r) {
    const std::optional<ErrorInfo> found = ranks[r]->ear.wait(kLong);
    ASSERT_TRUE(found.has_value()) << r;
    EXPECT_EQ(found->reason, Reason::kCallMismatch);
    EXPECT_EQ(found->op, "all_gather");
    EXPECT_EQ(found->group, "g");
    EXPECT_EQ(found->seq, 2u);
    EXPECT_EQ(found->my_rank, static_cast<int>(r));
    EXPECT_EQ(found->group_size, 3);
    EXPECT_THAT(found->ranks, ElementsAre(1));
    EXPECT_EQ(found->expected, "all_gather f32 x 1024 (ranks 0, 2)");
    EXPECT_EQ(found->actual, "all_gather f32 x 2048 (\"the other\") (rank 1)");
  }
}

// Their difference lies as many calls back as the board keeps, or more.
TEST(Board, WhatDifferedLongAgoIsFoundStill) {
  for (uint64_t calls : {uint64_t{20}, 2 * LanePage::kEntries}) {
    const auto ranks = meet(2);
    for (uint64_t seq = 1; seq <= calls; ++seq)
      for (size_t r = 0; r < 2; ++r)
        ranks[r]->call(
            op_of(DW_OP_ALL_REDUCE, seq == 5 && r == 1 ? 7 : 3, seq));
    for (const auto& rank : ranks) {
      const std::optional<ErrorInfo> found = rank->ear.wait(kLong);
      ASSERT_TRUE(found.has_value());
      EXPECT_EQ(found->reason, Reason::kCallMismatch);
      if (calls == 20) {
        EXPECT_EQ(found->seq, 5u);
      }
    }
  }
}

// Asynchronous calls, or a broadcast's root: what is compared is what both have
// reached, whenever the other gets there.
TEST(Board, ARankMayBeFarAhead) {
  const auto ranks = meet(2);
  for (uint64_t seq = 1; seq <= 1000; ++seq)
    ranks[0]->call(op_of(DW_OP_BROADCAST, 4, seq));
  for (uint64_t seq = 1; seq <= 1000; ++seq) {
    ranks[1]->call(op_of(DW_OP_BROADCAST, 4, seq));
    if (seq % 250 == 0) absl::SleepFor(absl::Milliseconds(40));
  }
  EXPECT_FALSE(ranks[0]->ear.wait(kLooks).has_value());
  EXPECT_FALSE(ranks[1]->ear.wait(kLooks).has_value());
}

TEST(Board, ARefusedCallIsNotThere) {
  const auto ranks = meet(2);
  for (const auto& rank : ranks) rank->call(op_of(DW_OP_BARRIER, 0, 1));
  ranks[0]->call(op_of(DW_OP_SCAN, 3, 2));
  ranks[0]->lane->retract(2);
  absl::SleepFor(kLooks);
  for (const auto& rank : ranks) rank->call(op_of(DW_OP_ALL_REDUCE, 3, 2));
  for (const auto& rank : ranks)
    EXPECT_FALSE(rank->ear.wait(kLooks).has_value());
}

TEST(Board, GroupsComeAndGoAndOnlyTheirMembersHear) {
  const auto ranks = meet(3);
  for (uint64_t uid = 100; uid < 100 + 2 * kMostLanes; ++uid) {
    Ear ear;
    EXPECT_NE(Lane::open(ranks[0]->board, {"h", uid, 0, {0, 2}}, ear), nullptr)
        << uid;
  }
  Ear here, there;
  auto one = Lane::open(ranks[0]->board, {"h", 5, 0, {0, 2}}, here);
  auto other = Lane::open(ranks[2]->board, {"h", 5, 1, {0, 2}}, there);
  one->publish(op_of(DW_OP_BARRIER, 0, 1), "");
  other->publish(op_of(DW_OP_ALL_REDUCE, 1, 1), "");
  EXPECT_TRUE(here.wait(kLong).has_value());
  EXPECT_TRUE(there.wait(kLong).has_value());
  one.reset();
  other.reset();
  for (const auto& rank : ranks)
    EXPECT_FALSE(rank->ear.wait(kLooks).has_value());
}

// A wait that a test does not want to hear of, and one that it waits for.
constexpr absl::Duration kPatience = absl::Milliseconds(500);

dw_op waiting(uint16_t kind, int64_t count, uint64_t seq) {
  dw_op op = op_of(kind, count, seq);
  op.flags |= DW_FLAG_CALLER_WAITS;
  return op;
}

// All that wait hear of it, and one of them is to say so.
void expect_told(const std::vector<std::unique_ptr<Rank>>& ranks,
                 const std::vector<size_t>& waiting, size_t times,
                 uint64_t seq) {
  int speak = 0;
  for (const size_t r : waiting) {
    const auto waits = ranks[r]->ear.waits(times, kLong);
    ASSERT_EQ(waits.size(), times) << r;
    EXPECT_EQ(waits.back().seq, seq);
    EXPECT_GE(waits.back().waited, kPatience);
    speak += waits.back().speaks ? 1 : 0;
  }
  EXPECT_EQ(speak, 1);
}

TEST(Stragglers, AreNamedWithWhatTheyDoOncePerOperation) {
  const auto ranks = meet(4, kPatience);
  for (const auto& rank : ranks) {
    if (rank == ranks[3]) continue;
    rank->call(waiting(DW_OP_BARRIER, 0, 1), "evaluate");
    rank->lane->returned();
  }
  for (const size_t r : {0u, 2u})
    ranks[r]->call(waiting(DW_OP_ALL_REDUCE, 8, 2), "step 7");
  expect_told(ranks, {0, 2}, 1, 2);
  const Lane::Stuck first = ranks[2]->ear.waits(1, kLong).at(0);
  EXPECT_EQ(first.op, "all_reduce");
  EXPECT_EQ(first.label, "step 7");
  ASSERT_EQ(first.missing.size(), 2u);
  const RankSeen &one = first.missing[0], &three = first.missing[1];
  EXPECT_EQ(one.rank, 1);
  EXPECT_EQ(one.global_rank, 1);
  EXPECT_EQ(one.host, "here");
  EXPECT_EQ(one.pid, getpid());
  EXPECT_EQ(one.doing, RankSeen::Doing::kDone);
  EXPECT_EQ(one.call, "barrier");
  EXPECT_EQ(one.seq, 1u);
  EXPECT_EQ(one.label, "evaluate");
  EXPECT_EQ(one.group, "g");
  EXPECT_GT(one.since, absl::ZeroDuration());
  EXPECT_EQ(three.rank, 3);
  EXPECT_EQ(three.doing, RankSeen::Doing::kNothing);
  EXPECT_THAT(
      first.text,
      StartsWith("\"g\": all_reduce f32 x 8 sum #2 [step 7] has waited "));
  EXPECT_THAT(first.text,
              AllOf(HasSubstr(" for ranks 1, 3 of 4; rank 1 (process "),
                    HasSubstr(" has come out of barrier #1 [evaluate] "),
                    HasSubstr("; rank 3 (process "),
                    EndsWith(" on here) has made no call on the group. Next: "
                             "`distwrap info --live` shows the job")));
  // Once, however long it takes; again for another.
  absl::SleepFor(2 * kPatience);
  expect_told(ranks, {0, 2}, 1, 2);
  for (const size_t r : {1u, 3u}) {
    if (r == 3) ranks[r]->call(op_of(DW_OP_BARRIER, 0, 1));
    ranks[r]->call(waiting(DW_OP_ALL_REDUCE, 8, 2));
  }
  for (const auto& rank : ranks) rank->lane->returned();
  for (const size_t r : {0u, 1u, 3u})
    ranks[r]->call(waiting(DW_OP_BARRIER, 0, 3));
  EXPECT_EQ(ranks[0]->ear.waits(2, kLong).back().seq, 3u);
  const Lane::Stuck again = ranks[1]->ear.waits(1, kLong).at(0);
  ASSERT_EQ(again.missing.size(), 1u);
  EXPECT_EQ(again.missing[0].rank, 2);
}

// The one that waits is in an earlier call, and holds the others up.
TEST(Stragglers, ThatWaitThemselvesAreSeenIn) {
  const auto ranks = meet(3, kPatience);
  ranks[0]->call(op_of(DW_OP_BROADCAST, 4, 1));
  ranks[1]->call(waiting(DW_OP_BROADCAST, 4, 1));
  ranks[2]->call(op_of(DW_OP_BROADCAST, 4, 1));
  for (const size_t r : {0u, 2u}) ranks[r]->call(waiting(DW_OP_BARRIER, 0, 2));
  expect_told(ranks, {0, 2}, 1, 2);
  const Lane::Stuck stuck = ranks[0]->ear.waits(1, kLong).at(0);
  ASSERT_EQ(stuck.missing.size(), 1u);
  EXPECT_EQ(stuck.missing[0].doing, RankSeen::Doing::kInside);
  EXPECT_EQ(stuck.missing[0].call, "broadcast f32 x 4");
  EXPECT_TRUE(ranks[1]->ear.waits(0, kLooks).empty()) << "all have come to it";
}

TEST(Stragglers, InAnotherGroupAreSeenThere) {
  const auto ranks = meet(3, kPatience);
  Ear here, there;
  auto one = Lane::open(ranks[1]->board, {"pair", 5, 0, {1, 2}}, here);
  auto two = Lane::open(ranks[2]->board, {"pair", 5, 1, {1, 2}}, there);
  one->publish(waiting(DW_OP_BARRIER, 0, 1), "inner");
  ranks[0]->call(waiting(DW_OP_ALL_REDUCE, 8, 1));
  ranks[2]->call(waiting(DW_OP_ALL_REDUCE, 8, 1));
  const Lane::Stuck outer = ranks[0]->ear.waits(1, kLong).at(0);
  ASSERT_EQ(outer.missing.size(), 1u);
  EXPECT_EQ(outer.missing[0].rank, 1);
  EXPECT_EQ(outer.missing[0].doing, RankSeen::Doing::kInside);
  EXPECT_EQ(outer.missing[0].group, "pair");
  EXPECT_EQ(outer.missing[0].label, "inner");
  EXPECT_THAT(outer.text, HasSubstr("is in barrier #1 [inner] on \"pair\""));
  // And each of the two groups is told of.
  const Lane::Stuck inner = here.waits(1, kLong).at(0);
  ASSERT_EQ(inner.missing.size(), 1u);
  EXPECT_EQ(inner.missing[0].rank, 1);
  EXPECT_EQ(inner.missing[0].global_rank, 2);
  EXPECT_TRUE(inner.speaks);
}

TEST(Stragglers, OfOperationsWhoseCallersGoOn) {
  const auto ranks = meet(2, kPatience);
  for (uint64_t seq = 1; seq <= 100; ++seq) {
    ranks[0]->call(op_of(DW_OP_ALL_REDUCE, 8, seq));
    ranks[0]->lane->flies(seq);
  }
  ranks[1]->call(op_of(DW_OP_ALL_REDUCE, 8, 1));
  for (const uint64_t seq : std::vector<uint64_t>{2, 4, 3, 1})
    ranks[0]->lane->landed(seq);
  const auto waits = ranks[0]->ear.waits(1, kLong);
  ASSERT_EQ(waits.size(), 1u);
  EXPECT_THAT(waits[0].seq, AnyOf(1u, 2u, 5u));
  EXPECT_EQ(ranks[1]->lane->missing(2).size(), 0u);
  for (uint64_t seq = 5; seq <= 100; ++seq) ranks[0]->lane->landed(seq);
}

TEST(Stragglers, AreNoneWhileTheGroupGoesOnOrNobodyAsks) {
  for (const absl::Duration patience : {kLong, absl::InfiniteDuration()}) {
    const auto ranks = meet(2, patience);
    ranks[0]->call(waiting(DW_OP_BARRIER, 0, 1));
    EXPECT_TRUE(ranks[0]->ear.waits(1, kLooks).empty());
  }
  const auto ranks = meet(2, absl::Seconds(1));
  const Deadline end = Deadline::after(absl::Seconds(1.5));
  for (uint64_t seq = 1; !end.passed(); ++seq) {
    for (const auto& rank : ranks) rank->call(waiting(DW_OP_BARRIER, 0, seq));
    absl::SleepFor(absl::Milliseconds(5));
    for (const auto& rank : ranks) rank->lane->returned();
  }
  // Slow, but all have come.
  for (const auto& rank : ranks)
    rank->call(waiting(DW_OP_BARRIER, 0, 1'000'000));
  for (const auto& rank : ranks)
    EXPECT_TRUE(rank->ear.waits(1, absl::Seconds(1.5)).empty());
}

TEST(Stragglers, ThatHaveLeftAreSeenToHave) {
  const auto ranks = meet(2, kPatience);
  for (const auto& rank : ranks) rank->call(op_of(DW_OP_BARRIER, 0, 1));
  absl::SleepFor(kLooks);
  ranks[1]->lane.reset();
  ranks[0]->call(waiting(DW_OP_BARRIER, 0, 2));
  const Lane::Stuck stuck = ranks[0]->ear.waits(1, kLong).at(0);
  EXPECT_EQ(stuck.missing[0].doing, RankSeen::Doing::kLeft);
  EXPECT_THAT(stuck.text, HasSubstr(" has left the group. Next: "));
  EXPECT_EQ(ranks[0]->lane->missing(1).size(), 0u) << "it went after it";
}

TEST(InFlight, KnowsTheOldest) {
  InFlight flights;
  EXPECT_EQ(flights.oldest(), 0u);
  for (const uint64_t n : std::vector<uint64_t>{3, 4, 6}) flights.add(n);
  flights.end(4);
  EXPECT_EQ(flights.oldest(), 3u);
  flights.end(3);
  flights.end(3);
  EXPECT_EQ(flights.oldest(), 6u);
  // Taken back, and used again before the first has ended.
  flights.add(6);
  flights.end(6);
  EXPECT_EQ(flights.oldest(), 6u);
  flights.end(6);
  EXPECT_EQ(flights.oldest(), 0u);
}

// The memory is the neighbours' as well: nothing in it may hurt.
TEST(Board, NonsenseInTheMemoryHurtsNobody) {
  absl::StatusOr<Door> door = Door::open();
  ASSERT_TRUE(door.ok());
  const std::string name = door->name();
  const std::vector<BoardOffer> offers = {{"here", name, 1}, {"here", "x", 2}};
  Rank rank;
  std::thread host([&] {
    auto board = Board::meet({.rank = 0,
                              .heartbeat = absl::Milliseconds(200),
                              .watchdog = rank.watchdog,
                              .straggler = absl::Milliseconds(1)},
                             *std::move(door), offers, Deadline::after(kLong));
    ASSERT_TRUE(board.ok()) << board.status();
    rank.board = *std::move(board);
    rank.lane = Lane::open(rank.board, {"g", 77, 0, {0, 1}}, rank.ear);
  });
  auto taken = ask_at(name, 0, {1, 2}, Deadline::after(kLong));
  ASSERT_TRUE(taken.ok()) << taken.status();
  auto memory = HostMemory::adopt(*std::move(taken), 2);
  ASSERT_TRUE(memory.ok()) << memory.status();
  host.join();
  rank.call(waiting(DW_OP_BARRIER, 0, 1), "a\nb");
  Area& mine = (*memory)->area(1);
  ASSERT_TRUE((*memory)->reserve(&mine.front).ok());
  for (const LanePage& lane : mine.lanes)
    ASSERT_TRUE((*memory)->reserve(&lane).ok());
  auto* const words = reinterpret_cast<std::atomic<uint64_t>*>(&mine);
  uint64_t state = 12345;
  for (int round = 0; round < 20; ++round) {
    for (size_t i = 0; i < sizeof(Area) / 8; ++i)
      words[i].store(round % 2 == 0 ? 77 : state = mix(state + i));
    mine.front.state.store(AreaState::kOpen);
    absl::SleepFor(absl::Milliseconds(20));
  }
  // It is either thought dead, or to differ.
  EXPECT_TRUE(rank.ear.wait(kLong).has_value());
}

}  // namespace
}  // namespace distwrap::comm
