// The calls that ranks publish on the board, and the differences that they
// find.
#include "comm/board/board.h"

#include "board_fixture.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace distwrap::comm {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(Board, EqualCallsAreWell) {
  const auto ranks = meet(3);
  for (uint64_t seq = 1; seq <= 500; ++seq)
    for (const auto& rank : ranks)
      rank->call(op_of(DW_OP_ALL_REDUCE, static_cast<int64_t>(seq), seq));
  for (const auto& rank : ranks)
    EXPECT_FALSE(rank->ear.wait(kLooks).has_value());
}

// All ranks name the rank that differs, with the two calls.
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

// The difference is as many calls back as the board keeps, or more. The two of
// a pair name it, whoever else has come; the other ranks do so once all have
// come, also when another call was made since.
TEST(Board, CountsOfAPairThatDifferAreNamed) {
  const int64_t ones[] = {1, 1, 1}, five[] = {1, 5, 1}, four[] = {4, 1, 1};
  const auto exchange = [](const int64_t* sends, const int64_t* expects) {
    dw_op op = op_of(DW_OP_ALL_TO_ALL, 3, 1);
    op.flags |= DW_FLAG_PER_RANK;
    op.in.counts = sends;
    op.out.counts = expects;
    return op;
  };
  const auto ranks = meet(3);
  ranks[0]->call(exchange(five, ones));
  ranks[1]->call(exchange(ones, four));
  const auto is_named = [&](size_t r) {
    const std::optional<ErrorInfo> found = ranks[r]->ear.wait(kLong);
    ASSERT_TRUE(found.has_value()) << r;
    EXPECT_EQ(found->reason, Reason::kCallMismatch);
    EXPECT_EQ(found->seq, 1u);
    EXPECT_THAT(found->ranks, ElementsAre(0, 1));
    EXPECT_EQ(found->expected,
              "all_to_all f32 with counts (rank 1): 4 elements of rank 0");
    EXPECT_EQ(found->actual,
              "all_to_all f32 with counts (rank 0): 5 elements to rank 1");
  };
  is_named(0);
  is_named(1);
  EXPECT_FALSE(ranks[2]->ear.wait(kLooks).has_value());
  ranks[2]->call(exchange(ones, ones));
  for (const auto& rank : ranks) rank->call(op_of(DW_OP_BARRIER, 0, 2));
  is_named(2);
}

// Lists that all ranks have to know: the first entry that differs, of both.
TEST(Board, CountsThatAllRanksKnowAreNamedWhereTheyDiffer) {
  const int64_t most[] = {3, 5, 1}, one[] = {3, 1, 7};
  for (const uint16_t kind : {DW_OP_ALL_GATHER, DW_OP_REDUCE_SCATTER}) {
    const auto call = [&](const int64_t* counts) {
      dw_op op = op_of(kind, 3, 1);
      op.flags |= DW_FLAG_PER_RANK;
      (kind == DW_OP_ALL_GATHER ? op.out : op.in).counts = counts;
      return op;
    };
    const auto ranks = meet(3);
    for (size_t r = 0; r < 3; ++r) ranks[r]->call(call(r == 1 ? one : most));
    const std::string name =
        kind == DW_OP_ALL_GATHER ? "all_gather f32" : "reduce_scatter f32";
    for (const auto& rank : ranks) {
      const std::optional<ErrorInfo> found = rank->ear.wait(kLong);
      ASSERT_TRUE(found.has_value());
      EXPECT_EQ(found->what, "ranks gave different counts per rank");
      EXPECT_THAT(found->ranks, ElementsAre(1));
      EXPECT_THAT(found->expected,
                  AllOf(StartsWith(name), HasSubstr(" with counts"),
                        EndsWith(", 5 elements for rank 1 (ranks 0, 2)")));
      EXPECT_THAT(found->actual,
                  AllOf(StartsWith(name), HasSubstr(" with counts"),
                        EndsWith(", 1 element for rank 1 and 1 more differs "
                                 "(rank 1)")));
    }
  }
}

// Equal calls after one that has been forgotten: nothing is said of counts.
TEST(Board, CountsAreNotBlamedForWhatIsForgotten) {
  const int64_t counts[] = {3, 5};
  const auto ranks = meet(2);
  for (uint64_t seq = 1; seq <= 2 * GroupPage::kEntries; ++seq)
    for (size_t r = 0; r < 2; ++r) {
      dw_op op = op_of(DW_OP_ALL_GATHER, seq == 1 && r == 1 ? 7 : 3, seq);
      if (seq > 1) {
        op.flags |= DW_FLAG_PER_RANK;
        op.out.counts = counts;
      }
      ranks[r]->call(op);
    }
  for (const auto& rank : ranks) {
    const std::optional<ErrorInfo> found = rank->ear.wait(kLong);
    ASSERT_TRUE(found.has_value());
    EXPECT_THAT(found->what, StartsWith("ranks called different operations"));
  }
}

TEST(Board, WhatDifferedLongAgoIsFoundStill) {
  for (uint64_t calls : {uint64_t{20}, 2 * GroupPage::kEntries}) {
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

// The rank with which a group has failed may end at once. The test stands for
// such a neighbour.
TEST(Board, ARankThatGaveUpBeforeItEndedIsNotLost) {
  for (const bool gave_up : {false, true}) {
    absl::StatusOr<DescriptorHandover> handover = DescriptorHandover::open();
    ASSERT_TRUE(handover.ok()) << handover.status();
    const std::string name = handover->name();
    Rank rank;
    rank.board = *Board::meet(
        {.rank = 0, .watchdog = rank.watchdog, .world_size = 2},
        *std::move(handover),
        std::vector<BoardOffer>{{"here", name, 1}, {"here", "x", 2}},
        Deadline::after(kLong));
    rank.group_board = GroupBoard::open(rank.board, {"g", 77, 0, {0, 1}});
    const auto memory =
        *HostMemory::adopt(*ask_at(name, 0, {1, 2}, Deadline::after(kLong)), 2);
    FrontPage& front = memory->area(1).front;
    ASSERT_TRUE(memory->reserve(&front).ok());
    if (gave_up) {
      front.broken[0].since_ns.store(1);
      front.broken[0].uid.store(77);
    }
    const auto liveness = memory->make_liveness(1);
    std::thread([&] { liveness->hold(); }).join();
    front.state.store(AreaState::kOpen);
    rank.group_board->tell(&rank.ear);
    const std::optional<ErrorInfo> found = rank.ear.wait(kLong);
    ASSERT_TRUE(found.has_value());
    EXPECT_EQ(found->reason, gave_up ? Reason::kAborted : Reason::kPeerLost);
    EXPECT_THAT(found->ranks, ElementsAre(1));
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

// Counted by processor time; a look can only be late.
TEST(Board, ARankThatDoesNothingLooksHalfAsOften) {
  absl::StatusOr<DescriptorHandover> door = DescriptorHandover::open();
  ASSERT_TRUE(door.ok());
  const std::string name = door->name();
  Rank rank;
  auto board = Board::meet(
      {.rank = 0, .watchdog = rank.watchdog}, *std::move(door),
      {{"here", name, 1}, {"here", "x", 2}}, Deadline::after(kLong));
  ASSERT_TRUE(board.ok()) << board.status();
  rank.board = *std::move(board);
  rank.group_board = GroupBoard::open(rank.board, {"g", 77, 0, {0, 1}});
  rank.group_board->tell(&rank.ear);
  auto taken = ask_at(name, 0, {1, 2}, Deadline::after(kLong));
  ASSERT_TRUE(taken.ok()) << taken.status();
  const auto memory = HostMemory::adopt(*std::move(taken), 2);
  ASSERT_TRUE(memory.ok()) << memory.status();
  const std::atomic<uint64_t>& beats = (*memory)->area(0).front.beats;
  // The reader is served until the rank's next look.
  absl::SleepFor(kLooks);
  const int64_t from_ns = Deadline::now_ns();
  const uint64_t before = beats.load();
  absl::SleepFor(2 * kLooks);
  const uint64_t looks = beats.load() - before;
  const int64_t passed_ns = Deadline::now_ns() - from_ns;
  EXPECT_GT(looks, 0u);
  EXPECT_LE(looks, static_cast<uint64_t>(passed_ns) / 50'000'000 + 1);
}

TEST(Board, ARefusedCallIsNotThere) {
  const auto ranks = meet(2);
  for (const auto& rank : ranks) rank->call(op_of(DW_OP_BARRIER, 0, 1));
  ranks[0]->call(op_of(DW_OP_SCAN, 3, 2));
  ranks[0]->group_board->retract(2);
  absl::SleepFor(kLooks);
  for (const auto& rank : ranks) rank->call(op_of(DW_OP_ALL_REDUCE, 3, 2));
  for (const auto& rank : ranks)
    EXPECT_FALSE(rank->ear.wait(kLooks).has_value());
}

TEST(Board, GroupsComeAndGoAndOnlyTheirMembersHear) {
  const auto ranks = meet(3);
  for (uint64_t uid = 100; uid < 100 + 2 * kMostGroupPages; ++uid) {
    Ear ear;
    EXPECT_NE(GroupBoard::open(ranks[0]->board, {"h", uid, 0, {0, 2}}), nullptr)
        << uid;
  }
  Ear here, there;
  auto one = GroupBoard::open(ranks[0]->board, {"h", 5, 0, {0, 2}});
  one->tell(&here);
  auto other = GroupBoard::open(ranks[2]->board, {"h", 5, 1, {0, 2}});
  other->tell(&there);
  one->publish(DW_OP_BARRIER, op_of(DW_OP_BARRIER, 0, 1), "");
  other->publish(DW_OP_ALL_REDUCE, op_of(DW_OP_ALL_REDUCE, 1, 1), "");
  EXPECT_TRUE(here.wait(kLong).has_value());
  EXPECT_TRUE(there.wait(kLong).has_value());
  one.reset();
  other.reset();
  for (const auto& rank : ranks)
    EXPECT_FALSE(rank->ear.wait(kLooks).has_value());
}

}  // namespace
}  // namespace distwrap::comm
