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
#include <vector>

namespace distwrap::comm {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

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

std::vector<std::unique_ptr<Rank>> meet(int n) {
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
          Board::meet({r, absl::Seconds(60), rank.watchdog},
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

TEST(Handover, StrangersGetNothingAndTheMissingAreNamed) {
  absl::StatusOr<Door> door = Door::open();
  ASSERT_TRUE(door.ok()) << door.status();
  const std::string name = door->name();
  auto memory = HostMemory::make(3);
  ASSERT_TRUE(memory.ok()) << memory.status();
  absl::Status served;
  std::thread host([&] {
    served = door->serve({{1, 11}, {2, 22}}, (*memory)->descriptor(),
                         Deadline::after(absl::Seconds(2)));
  });
  const Deadline deadline = Deadline::after(kLong);
  EXPECT_TRUE(ask_at(name, 0, {1, 11}, deadline).ok());
  EXPECT_EQ(error_reason(ask_at(name, 0, {2, 99}, deadline).status()),
            Reason::kPeerLost);
  // Once is enough.
  EXPECT_EQ(error_reason(ask_at(name, 0, {1, 11}, deadline).status()),
            Reason::kPeerLost);
  host.join();
  const std::optional<ErrorInfo> info = error_info(served);
  ASSERT_TRUE(info.has_value());
  EXPECT_EQ(info->reason, Reason::kTimedOut);
  EXPECT_THAT(info->ranks, ElementsAre(2));
  EXPECT_FALSE(ask_at("no such name", 0, {1, 11}, deadline).ok());
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

// The memory is the neighbours' as well: nothing in it may hurt.
TEST(Board, NonsenseInTheMemoryHurtsNobody) {
  absl::StatusOr<Door> door = Door::open();
  ASSERT_TRUE(door.ok());
  const std::string name = door->name();
  const std::vector<BoardOffer> offers = {{"here", name, 1}, {"here", "x", 2}};
  Rank rank;
  std::thread host([&] {
    auto board = Board::meet({0, absl::Milliseconds(200), rank.watchdog},
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
  rank.call(op_of(DW_OP_BARRIER, 0, 1));
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
