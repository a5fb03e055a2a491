// Meetings of a group's members on the board.
#include "board_fixture.h"
#include "comm/board/group_board.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

namespace distwrap::comm {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Keeps why a meeting was given up.
struct Keeper final : GroupBoard::Attendant {
  void waits_for(const std::vector<int>&) override {}
  std::optional<ErrorInfo> stops() override { return std::nullopt; }
  void gives_up(const std::vector<int>& missing,
                std::optional<ErrorInfo> lost) override {
    given_up.push_back(missing);
    why = std::move(lost);
  }
  std::vector<std::vector<int>> given_up;
  std::optional<ErrorInfo> why;
};

// The attendant of a meeting that does not fail.
struct Never final : GroupBoard::Attendant {
  void waits_for(const std::vector<int>&) override {}
  std::optional<ErrorInfo> stops() override { return std::nullopt; }
  void gives_up(const std::vector<int>&, std::optional<ErrorInfo>) override {
    ADD_FAILURE() << "a meeting failed";
  }
} never;

// `body` on each rank, at once.
void on_all(const std::vector<std::unique_ptr<Rank>>& ranks,
            const std::function<void(int)>& body) {
  std::vector<std::thread> threads;
  for (int rank = 0; rank < static_cast<int>(ranks.size()); ++rank)
    threads.emplace_back([&, rank] { body(rank); });
  for (std::thread& thread : threads) thread.join();
}

std::string note_of(int rank, int meeting) {
  std::mt19937 random(static_cast<unsigned>(rank * 1000 + meeting));
  std::string note(random() % (Note::kMostBytes + 1), 'x');
  for (char& c : note) c = static_cast<char>(random());
  return note;
}

TEST(Meetings, AllHearAllEachTime) {
  const auto ranks = meet(4);
  on_all(ranks, [&](int rank) {
    std::mt19937 random(static_cast<unsigned>(rank));
    for (int i = 0; i < 500; ++i) {
      if (random() % 50 == 0) std::this_thread::yield();
      const auto notes = ranks[static_cast<size_t>(rank)]->group_board->meet(
          note_of(rank, i), Deadline::after(kLong), never);
      ASSERT_TRUE(notes.has_value());
      for (int other = 0; other < 4; ++other)
        ASSERT_EQ((*notes)[static_cast<size_t>(other)], note_of(other, i));
    }
  });
}

// Ranks that came learn of the failure after the deadline, the others when they
// come; then they meet again.
TEST(Meetings, AnAbsentRankFailsItForAllAndTheNextOneIsWell) {
  const auto ranks = meet(3);
  const auto group_board = [&](int rank) -> GroupBoard& {
    return *ranks[static_cast<size_t>(rank)]->group_board;
  };
  std::mutex mutex;
  std::vector<std::vector<int>> missing;
  const auto absent = [&](int rank) {
    Keeper keeper;
    const auto notes = group_board(rank).meet(
        "here", Deadline::after(absl::Milliseconds(200)), keeper);
    EXPECT_FALSE(notes.has_value());
    EXPECT_FALSE(keeper.why.has_value());
    std::lock_guard<std::mutex> lock(mutex);
    missing.insert(missing.end(), keeper.given_up.begin(),
                   keeper.given_up.end());
  };
  for (int times = 0; times < 3; ++times) {
    on_all(ranks, [&](int rank) {
      if (rank != 1) absent(rank);
    });
    EXPECT_THAT(missing, ::testing::Each(ElementsAre(1)));
    EXPECT_FALSE(missing.empty());
    missing.clear();
  }
  for (int times = 0; times < 3; ++times) absent(1);
  EXPECT_THAT(missing, IsEmpty());
  on_all(ranks, [&](int rank) {
    EXPECT_TRUE(group_board(rank)
                    .meet("well", Deadline::after(kLong), never)
                    .has_value());
  });
}

TEST(Meetings, ARefusalFailsItForAll) {
  const auto ranks = meet(3);
  on_all(ranks, [&](int rank) {
    GroupBoard& group_board = *ranks[static_cast<size_t>(rank)]->group_board;
    for (int i = 0; i < 100; ++i) {
      if (i % 3 == rank) {
        EXPECT_TRUE(group_board.refuse_meeting());
        continue;
      }
      EXPECT_FALSE(
          group_board.meet("x", Deadline::after(kLong), never).has_value());
    }
    EXPECT_TRUE(
        group_board.meet("y", Deadline::after(kLong), never).has_value());
  });
}

// A rank comes at the last moment: the meeting has succeeded for all, or for
// none.
TEST(Meetings, AtItsDeadlineThereIsOneVerdict) {
  const auto ranks = meet(3);
  int held = 0;
  for (int i = 0; i < 60; ++i) {
    bool was[3] = {};
    on_all(ranks, [&](int rank) {
      Keeper keeper;
      if (rank == 2) absl::SleepFor(absl::Microseconds(4700 + i * 10));
      was[rank] =
          ranks[static_cast<size_t>(rank)]
              ->group_board
              ->meet("x", Deadline::after(absl::Milliseconds(5)), keeper)
              .has_value();
    });
    EXPECT_EQ(was[0], was[1]) << i;
    EXPECT_EQ(was[0], was[2]) << i;
    held += was[0] ? 1 : 0;
  }
  RecordProperty("held", held);
}

// The first to leave does not take the notes away from the last to read.
TEST(Meetings, OfThoseThatLeaveAtOnceAreHeardByAll) {
  for (int times = 0; times < 20; ++times) {
    const auto ranks = meet(3);
    on_all(ranks, [&](int rank) {
      Rank& mine = *ranks[static_cast<size_t>(rank)];
      if (rank == 2) absl::SleepFor(absl::Milliseconds(1));
      const auto notes =
          mine.group_board->meet("last", Deadline::after(kLong), never);
      EXPECT_THAT(notes.value_or(GroupBoard::Notes()),
                  ElementsAre("last", "last", "last"));
      mine.group_board.reset();
    });
  }
}

// Before its deadline, on the ranks that wait and on the one that has left.
TEST(Meetings, WithoutARankThatHasEndedTheGroupFailAtOnce) {
  for (const bool closes : {false, true}) {
    const auto ranks = meet(3);
    absl::SleepFor(kLooks);
    ranks[1]->group_board->enter_close_barrier();
    if (closes) ranks[1]->group_board.reset();
    std::atomic<int> told{0};
    on_all(ranks, [&](int rank) {
      if (rank == 1) return;
      Keeper keeper;
      const Deadline soon = Deadline::after(absl::Seconds(30));
      EXPECT_FALSE(ranks[static_cast<size_t>(rank)]
                       ->group_board->meet("x", Deadline::after(kLong), keeper)
                       .has_value());
      EXPECT_FALSE(soon.passed());
      if (!keeper.why.has_value()) return;
      ++told;
      EXPECT_EQ(keeper.why->reason, Reason::kGroupClosed);
      EXPECT_THAT(keeper.why->ranks, ElementsAre(1));
    });
    EXPECT_GT(told, 0);
  }
}

// Another thread of this rank ends the group: it stays ended.
TEST(Meetings, AreNotHeldByWhoHasSaidGoodbye) {
  const auto ranks = meet(2);
  std::thread ends([&] {
    absl::SleepFor(absl::Milliseconds(20));
    ranks[0]->group_board->enter_close_barrier();
  });
  Keeper keeper;
  EXPECT_FALSE(ranks[0]
                   ->group_board->meet("x", Deadline::after(kLong), keeper)
                   .has_value());
  ends.join();
  ASSERT_TRUE(keeper.why.has_value());
  EXPECT_THAT(keeper.why->ranks, ElementsAre(0));
  ranks[1]->group_board->enter_close_barrier();
  EXPECT_TRUE(
      ranks[1]->group_board->wait_for_close_barrier(Deadline::after(kLong)));
}

TEST(Meetings, EndWhenAllHaveSaidGoodbye) {
  const auto ranks = meet(3);
  const Deadline now = Deadline::after(absl::ZeroDuration());
  // A rank is seen once its session's thread has looked for the first time.
  const Deadline soon = Deadline::after(kLong);
  ranks[0]->group_board->enter_close_barrier();
  EXPECT_FALSE(ranks[0]->group_board->wait_for_close_barrier(now));
  ranks[1]->group_board->enter_close_barrier();
  EXPECT_FALSE(ranks[0]->group_board->wait_for_close_barrier(now));
  ranks[2]->group_board->enter_close_barrier();
  EXPECT_TRUE(ranks[0]->group_board->wait_for_close_barrier(soon));
  ranks[1]->group_board.reset();
  EXPECT_TRUE(ranks[2]->group_board->wait_for_close_barrier(soon));
}

}  // namespace
}  // namespace distwrap::comm
