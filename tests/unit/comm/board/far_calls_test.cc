// Calls that differ between hosts. Each host has a board of its own, and what
// one tells is handed to all others, as the news between hosts do.
#include "board_fixture.h"
#include "comm/board/told_calls.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace distwrap::comm {
namespace {

using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Two hosts with two ranks each; what a rank tells is handed to all of them.
struct TwoHosts {
  TwoHosts() {
    std::vector<GroupBoard*> all;
    for (const auto& rank : ranks) all.push_back(rank->group_board.get());
    for (const auto& rank : ranks) rank->ear.connect(all);
  }
  ~TwoHosts() {
    for (const auto& rank : ranks) rank->ear.connect({});
  }
  const std::vector<std::unique_ptr<Rank>> ranks =
      meet(4, absl::InfiniteDuration(), {"a", "a", "b", "b"});
};

std::optional<ErrorInfo> mismatch_of(Rank& rank) {
  std::optional<ErrorInfo> found = rank.ear.wait(kLong);
  EXPECT_EQ(found.value_or(ErrorInfo{}).reason, Reason::kCallMismatch);
  return found;
}

TEST(FarCalls, EqualCallsAreWell) {
  const TwoHosts job;
  const auto& ranks = job.ranks;
  for (uint64_t seq = 1; seq <= 2000; ++seq)
    for (const auto& rank : ranks)
      rank->call(op_of(DW_OP_ALL_REDUCE, static_cast<int64_t>(seq), seq));
  for (const auto& rank : ranks) rank->call(waiting(DW_OP_ALL_REDUCE, 4, 2001));
  // Longer than the interval in which calls are told.
  for (const auto& rank : ranks)
    EXPECT_FALSE(rank->ear.wait(absl::Seconds(2)).has_value());
}

TEST(FarCalls, ADifferenceIsTheSameErrorOnAllHosts) {
  const TwoHosts job;
  const auto& ranks = job.ranks;
  for (size_t r = 0; r < 4; ++r) {
    ranks[r]->call(op_of(DW_OP_BARRIER, 0, 1));
    ranks[r]->call(waiting(DW_OP_ALL_GATHER, r < 2 ? 1024 : 2048, 2),
                   r < 2 ? "" : "the other");
  }
  for (const auto& rank : ranks) {
    const std::optional<ErrorInfo> found = mismatch_of(*rank);
    ASSERT_TRUE(found.has_value());
    EXPECT_EQ(found->op, "all_gather");
    EXPECT_EQ(found->seq, 2u);
    EXPECT_THAT(found->ranks, ElementsAre(2, 3));
    EXPECT_EQ(found->expected, "all_gather f32 x 1024 (ranks 0, 1)");
    EXPECT_EQ(found->actual,
              "all_gather f32 x 2048 (\"the other\") (ranks 2, 3)");
  }
}

TEST(FarCalls, ADifferenceIsFoundThoughNobodyWaits) {
  const TwoHosts job;
  const auto& ranks = job.ranks;
  for (size_t r = 0; r < 4; ++r)
    for (uint64_t seq = 1; seq <= 3; ++seq)
      ranks[r]->call(op_of(DW_OP_BROADCAST, r >= 2 && seq == 2 ? 8 : 4, seq));
  for (const auto& rank : ranks) {
    const std::optional<ErrorInfo> found = mismatch_of(*rank);
    ASSERT_TRUE(found.has_value());
    EXPECT_EQ(found->seq, 2u);
    EXPECT_THAT(found->ranks, ElementsAre(2, 3));
  }
}

// The call that differs, and all others that a page keeps, are long gone when
// the other host is told.
TEST(FarCalls, ADifferenceAmongManyFastCallsIsFound) {
  const TwoHosts job;
  const auto& ranks = job.ranks;
  std::vector<uint64_t> next(4, 1);
  const auto call = [&](size_t r, uint64_t calls) {
    for (; calls > 0; --calls, ++next[r])
      ranks[r]->call(
          op_of(DW_OP_ALL_REDUCE, r >= 2 && next[r] == 7 ? 8 : 4, next[r]));
  };
  for (size_t r = 0; r < 4; ++r) call(r, 3000);
  // Each host goes on, far from where the other is at that time.
  const Deadline patience = Deadline::after(kLong);
  while (!ranks[0]->ear.wait(absl::Milliseconds(1)).has_value() &&
         !ranks[2]->ear.wait(absl::Milliseconds(1)).has_value() &&
         !patience.passed())
    for (size_t r = 0; r < 4; ++r) call(r, r < 2 ? 101 : 103);
  std::optional<ErrorInfo> found = ranks[0]->ear.wait(absl::ZeroDuration());
  if (!found.has_value()) found = ranks[2]->ear.wait(absl::ZeroDuration());
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->reason, Reason::kCallMismatch);
  EXPECT_THAT(found->what, AnyOf(HasSubstr("in a call from #1 to #"),
                                 HasSubstr("or an earlier one from #1 on")));
  // Each part has two ranks, of which one may not have been heard of yet.
  EXPECT_THAT(found->ranks,
              AnyOf(ElementsAre(0), ElementsAre(1), ElementsAre(2),
                    ElementsAre(3), ElementsAre(2, 3)));
}

// The pages show the call, and histories of earlier ones differ too.
TEST(FarCalls, ACallThatThePagesShowIsNamedItself) {
  const TwoHosts job;
  const auto& ranks = job.ranks;
  for (uint64_t seq = 1; seq <= 270; ++seq)
    for (size_t r = 0; r < 4; ++r)
      ranks[r]->call(
          op_of(DW_OP_ALL_REDUCE, r >= 2 && seq == 250 ? 8 : 4, seq));
  for (const auto& rank : ranks) {
    const std::optional<ErrorInfo> found = mismatch_of(*rank);
    ASSERT_TRUE(found.has_value());
    EXPECT_EQ(found->seq, 250u);
    EXPECT_EQ(found->what, "ranks called different operations");
    EXPECT_THAT(found->actual, HasSubstr("x 8"));
  }
}

// The error begins behind the last call that was equal.
TEST(FarCalls, ADifferenceFarBackLiesBetweenTwoCalls) {
  const TwoHosts job;
  const auto& ranks = job.ranks;
  for (uint64_t seq = 1; seq <= 3000; ++seq)
    for (size_t r = 0; r < 4; ++r)
      ranks[r]->call(
          op_of(DW_OP_ALL_REDUCE, r >= 2 && seq == 1500 ? 8 : 4, seq));
  // So far ahead that no call of the pages is on both hosts.
  for (uint64_t seq = 3001; seq <= 3100; ++seq)
    for (size_t r = 0; r < 2; ++r)
      ranks[r]->call(op_of(DW_OP_ALL_REDUCE, 4, seq));
  for (const auto& rank : ranks) {
    const std::optional<ErrorInfo> found = mismatch_of(*rank);
    ASSERT_TRUE(found.has_value());
    EXPECT_THAT(found->what, HasSubstr("in a call from #1280 to #1535"));
    EXPECT_THAT(found->ranks, ElementsAre(2, 3));
  }
}

// Two pages show some calls, but not the first that differs.
TEST(FarCalls, ARankThatIsAheadDoesNotBlameACallThatWasEqual) {
  const TwoHosts job;
  const auto& ranks = job.ranks;
  for (uint64_t seq = 1; seq <= 100; ++seq)
    for (size_t r = 0; r < (seq <= 90 ? 4 : 2); ++r)
      ranks[r]->call(op_of(DW_OP_ALL_REDUCE, r >= 2 && seq == 61 ? 8 : 4, seq));
  for (const auto& rank : ranks) {
    const std::optional<ErrorInfo> found = mismatch_of(*rank);
    ASSERT_TRUE(found.has_value());
    EXPECT_EQ(found->seq, 69u);
    EXPECT_THAT(found->what, HasSubstr("or an earlier one from #1 on"));
    EXPECT_THAT(found->ranks, ElementsAre(2, 3));
  }
}

TEST(FarCalls, MissingRanksOfOtherHostsAreNamed) {
  const TwoHosts job;
  const auto& ranks = job.ranks;
  for (size_t r = 0; r < 4; ++r) ranks[r]->call(op_of(DW_OP_BARRIER, 0, 1));
  for (size_t r = 0; r < 3; ++r)
    ranks[r]->call(waiting(DW_OP_ALL_REDUCE, 4, 2));
  const Deadline patience = Deadline::after(kLong);
  std::vector<RankSeen> missing;
  // A rank of this host is missing until its page is found.
  while ((missing.size() != 1 || missing[0].rank != 3) && !patience.passed())
    missing = ranks[0]->group_board->missing(2);
  ASSERT_EQ(missing.size(), 1u);
  EXPECT_EQ(missing[0].rank, 3);
  EXPECT_EQ(missing[0].seq, 1u);
  EXPECT_EQ(missing[0].host, "b");
}

// Each rank calls an all-to-all with these counts.
dw_op exchange(const int64_t* sends, const int64_t* expects) {
  dw_op op = waiting(DW_OP_ALL_TO_ALL, 4, 1);
  op.flags |= DW_FLAG_PER_RANK;
  op.in.counts = sends;
  op.out.counts = expects;
  return op;
}
constexpr int64_t kOnes[] = {1, 1, 1, 1}, kFive[] = {1, 1, 5, 1};

TEST(FarCalls, CountsOfAPairOnTwoHostsAreNamed) {
  const TwoHosts job;
  const auto& ranks = job.ranks;
  for (size_t r = 0; r < 4; ++r)
    ranks[r]->call(exchange(r == 1 ? kFive : kOnes, kOnes));
  const std::optional<ErrorInfo> found = mismatch_of(*ranks[2]);
  ASSERT_TRUE(found.has_value());
  EXPECT_THAT(found->ranks, ElementsAre(1, 2));
  EXPECT_THAT(found->actual, HasSubstr("(rank 1): 5 elements to rank 2"));
}

// The calls have ended on all ranks, whatever their engine made of them.
TEST(FarCalls, CountsOfAPairAreComparedThoughNobodyWaits) {
  const TwoHosts job;
  const auto& ranks = job.ranks;
  for (size_t r = 0; r < 4; ++r) {
    dw_op op = exchange(r == 1 ? kFive : kOnes, kOnes);
    op.flags &= ~uint32_t{DW_FLAG_CALLER_WAITS};
    ranks[r]->call(op);
  }
  const std::optional<ErrorInfo> found = mismatch_of(*ranks[2]);
  ASSERT_TRUE(found.has_value());
  EXPECT_THAT(found->ranks, ElementsAre(1, 2));
}

TEST(FarCalls, WhatOthersSayOfARankDoesNotReplaceItsOwnWords) {
  const auto ranks = meet(4, absl::InfiniteDuration(), {"a", "a", "b", "b"});
  for (size_t r = 0; r < 3; ++r)
    ranks[r]->call(exchange(r == 1 ? kFive : kOnes, kOnes));
  const std::string own = ranks[1]->ear.told_waiting(kLong);
  std::optional<ToldCalls> others = ToldCalls::read(own);
  ASSERT_TRUE(others.has_value());
  // Rank 0 spoke for both before it saw that rank 1 waits.
  others->ranks = {{0, 1, 1}, {1, 1, 1}};
  others->inside = 0;
  others->counts.clear();
  ranks[2]->group_board->hear(own);
  ranks[2]->group_board->hear(others->text());
  EXPECT_TRUE(mismatch_of(*ranks[2]).has_value());
}

// The rank has found the difference before it was time to tell its own call.
TEST(FarCalls, WhoHasFoundADifferenceStillTellsItsCalls) {
  const auto ranks = meet(4, absl::InfiniteDuration(), {"a", "a", "b", "b"});
  ranks[2]->call(exchange(kOnes, kOnes));
  const std::string theirs = ranks[2]->ear.told_waiting(kLong);
  ASSERT_FALSE(theirs.empty());
  ranks[1]->group_board->hear(theirs);
  ranks[1]->call(exchange(kFive, kOnes));
  EXPECT_TRUE(mismatch_of(*ranks[1]).has_value());
  const std::string own = ranks[1]->ear.told_waiting(kLong);
  ASSERT_FALSE(own.empty());
  ranks[2]->group_board->hear(own);
  EXPECT_TRUE(mismatch_of(*ranks[2]).has_value());
}

// Zeros at the end of the counts are not told, and replace what was told
// before.
TEST(FarCalls, CountsOfACallDoNotStayForTheNext) {
  const TwoHosts job;
  const auto& ranks = job.ranks;
  const int64_t many[] = {9, 9, 9, 9}, none[] = {0, 0, 0, 0};
  for (uint64_t seq = 1; seq <= 2; ++seq) {
    for (const auto& rank : ranks) {
      dw_op op = waiting(DW_OP_ALL_TO_ALL, 4, seq);
      op.flags |= DW_FLAG_PER_RANK;
      op.in.counts = op.out.counts = seq == 1 ? many : none;
      rank->call(op);
    }
    // Time in which all of them tell their counts.
    for (const auto& rank : ranks)
      EXPECT_FALSE(rank->ear.wait(absl::Milliseconds(300)).has_value());
  }
}

TEST(ToldCalls, AreReadAsTheyWereWritten) {
  ToldCalls told;
  told.host = "a";
  told.ranks = {{3, 77, 9}, {4, 78, 8}};
  told.inside = 9;
  told.since_ns = 5;
  told.calls = {{8, ~uint64_t{0}, 2, -1, {3, 4, 5}}, {9, 1, 2, 6, {}}};
  told.checkpoints = {{255, 7}};
  told.counts = {1, 0, 2};
  const std::string text = told.text();
  const std::optional<ToldCalls> read = ToldCalls::read(text);
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(read->text(), text);
  EXPECT_EQ(read->calls[0].count, -1);
  EXPECT_EQ(read->ranks[1].process, 78);
  // No part of it, and nothing with more behind it.
  for (size_t size = 0; size < text.size(); ++size)
    if (text[size] == ' ') {
      EXPECT_FALSE(ToldCalls::read(text.substr(0, size)).has_value()) << size;
    }
  EXPECT_FALSE(ToldCalls::read(text + " 0").has_value());
  EXPECT_FALSE(ToldCalls::read("a ffffffffffffffff").has_value());
}

}  // namespace
}  // namespace distwrap::comm
