// The ranks that are reported as missing to waiting ranks.
#include "board_fixture.h"
#include "comm/board/in_flight.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <unistd.h>
#include <vector>

namespace distwrap::comm {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// A wait that a test does not want to hear of, and one that it waits for.
constexpr absl::Duration kPatience = absl::Milliseconds(500);

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

TEST(Arrivals, AreKnownUntilALaterOneTakesTheirPlace) {
  const auto ranks = meet(2);
  const GroupBoard& reader = *ranks[0]->group_board;
  EXPECT_EQ(reader.when_came(1, 5), 0);
  ranks[1]->group_board->come_to(5, 700);
  ranks[0]->group_board->come_to(5, 600);
  // A rank's pages are read once its session's thread has opened its area.
  const Deadline patience = Deadline::after(kLong);
  while (reader.when_came(1, 5) == 0 && !patience.passed())
    absl::SleepFor(absl::Milliseconds(1));
  EXPECT_EQ(reader.when_came(1, 5), 700);
  EXPECT_EQ(reader.when_came(0, 5), 600);
  EXPECT_EQ(reader.when_came(1, 6), 0);
  EXPECT_EQ(reader.when_came(2, 5), 0);  // no member
  ranks[1]->group_board->come_to(5 + GroupPage::kArrivals, 800);
  EXPECT_EQ(reader.when_came(1, 5), 0);
  EXPECT_EQ(reader.when_came(1, 5 + GroupPage::kArrivals), 800);
}

TEST(Stragglers, AreNamedWithWhatTheyDoOncePerOperation) {
  const auto ranks = meet(4, kPatience);
  for (const auto& rank : ranks) {
    if (rank == ranks[3]) continue;
    rank->call(waiting(DW_OP_BARRIER, 0, 1), "evaluate");
    rank->group_board->returned();
  }
  for (const size_t r : {0u, 2u})
    ranks[r]->call(waiting(DW_OP_ALL_REDUCE, 8, 2), "step 7");
  expect_told(ranks, {0, 2}, 1, 2);
  const GroupBoard::Stuck first = ranks[2]->ear.waits(1, kLong).at(0);
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
  for (const auto& rank : ranks) rank->group_board->returned();
  for (const size_t r : {0u, 1u, 3u})
    ranks[r]->call(waiting(DW_OP_BARRIER, 0, 3));
  EXPECT_EQ(ranks[0]->ear.waits(2, kLong).back().seq, 3u);
  const GroupBoard::Stuck again = ranks[1]->ear.waits(1, kLong).at(0);
  ASSERT_EQ(again.missing.size(), 1u);
  EXPECT_EQ(again.missing[0].rank, 2);
}

// The missing rank waits in an earlier call, and delays the others.
TEST(Stragglers, ThatWaitThemselvesAreSeenIn) {
  const auto ranks = meet(3, kPatience);
  ranks[0]->call(op_of(DW_OP_BROADCAST, 4, 1));
  ranks[1]->call(waiting(DW_OP_BROADCAST, 4, 1));
  ranks[2]->call(op_of(DW_OP_BROADCAST, 4, 1));
  for (const size_t r : {0u, 2u}) ranks[r]->call(waiting(DW_OP_BARRIER, 0, 2));
  expect_told(ranks, {0, 2}, 1, 2);
  const GroupBoard::Stuck stuck = ranks[0]->ear.waits(1, kLong).at(0);
  ASSERT_EQ(stuck.missing.size(), 1u);
  EXPECT_EQ(stuck.missing[0].doing, RankSeen::Doing::kInside);
  EXPECT_EQ(stuck.missing[0].call, "broadcast f32 x 4");
  EXPECT_TRUE(ranks[1]->ear.waits(0, kLooks).empty()) << "all have come to it";
}

// Entries are used again, and their labels are written only where one is.
TEST(Stragglers, BearNoLabelOfAnEarlierCall) {
  const auto ranks = meet(2, kPatience);
  const uint64_t last = GroupPage::kEntries + 1;
  for (uint64_t n = 1; n <= last; ++n) {
    ranks[0]->call(waiting(DW_OP_BARRIER, 0, n), n == 1 ? "first" : "");
    if (n != last) ranks[0]->group_board->returned();
  }
  const GroupBoard::Stuck stuck = ranks[0]->ear.waits(1, kLong).at(0);
  EXPECT_EQ(stuck.seq, last);
  EXPECT_EQ(stuck.label, "");
}

TEST(Stragglers, InAnotherGroupAreSeenThere) {
  const auto ranks = meet(3, kPatience);
  Ear here, there;
  auto one = GroupBoard::open(ranks[1]->board, {"pair", 5, 0, {1, 2}});
  one->tell(&here);
  auto two = GroupBoard::open(ranks[2]->board, {"pair", 5, 1, {1, 2}});
  two->tell(&there);
  one->publish(DW_OP_BARRIER, waiting(DW_OP_BARRIER, 0, 1), "inner");
  ranks[0]->call(waiting(DW_OP_ALL_REDUCE, 8, 1));
  ranks[2]->call(waiting(DW_OP_ALL_REDUCE, 8, 1));
  const GroupBoard::Stuck outer = ranks[0]->ear.waits(1, kLong).at(0);
  ASSERT_EQ(outer.missing.size(), 1u);
  EXPECT_EQ(outer.missing[0].rank, 1);
  EXPECT_EQ(outer.missing[0].doing, RankSeen::Doing::kInside);
  EXPECT_EQ(outer.missing[0].group, "pair");
  EXPECT_EQ(outer.missing[0].label, "inner");
  EXPECT_THAT(outer.text, HasSubstr("is in barrier #1 [inner] on \"pair\""));
  // The inner group is reported as well.
  const GroupBoard::Stuck inner = here.waits(1, kLong).at(0);
  ASSERT_EQ(inner.missing.size(), 1u);
  EXPECT_EQ(inner.missing[0].rank, 1);
  EXPECT_EQ(inner.missing[0].global_rank, 2);
  EXPECT_TRUE(inner.speaks);
}

TEST(Stragglers, OfOperationsWhoseCallersGoOn) {
  const auto ranks = meet(2, kPatience);
  for (uint64_t seq = 1; seq <= 100; ++seq) {
    ranks[0]->call(op_of(DW_OP_ALL_REDUCE, 8, seq));
    ranks[0]->group_board->began(seq);
  }
  ranks[1]->call(op_of(DW_OP_ALL_REDUCE, 8, 1));
  for (const uint64_t seq : std::vector<uint64_t>{2, 4, 3, 1})
    ranks[0]->group_board->finished(seq);
  const auto waits = ranks[0]->ear.waits(1, kLong);
  ASSERT_EQ(waits.size(), 1u);
  EXPECT_THAT(waits[0].seq, AnyOf(1u, 2u, 5u));
  EXPECT_EQ(ranks[1]->group_board->missing(2).size(), 0u);
  for (uint64_t seq = 5; seq <= 100; ++seq)
    ranks[0]->group_board->finished(seq);
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
    for (const auto& rank : ranks) rank->group_board->returned();
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
  ranks[1]->group_board.reset();
  ranks[0]->call(waiting(DW_OP_BARRIER, 0, 2));
  const GroupBoard::Stuck stuck = ranks[0]->ear.waits(1, kLong).at(0);
  EXPECT_EQ(stuck.missing[0].doing, RankSeen::Doing::kLeft);
  EXPECT_THAT(stuck.text, HasSubstr(" has left the group. Next: "));
  EXPECT_EQ(ranks[0]->group_board->missing(1).size(), 0u) << "it went after it";
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

}  // namespace
}  // namespace distwrap::comm
