// The processes that get the memory of a host.
#include "comm/board/handover.h"

#include "base/error.h"
#include "board_fixture.h"
#include "comm/board/host_memory.h"

#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace distwrap::comm {
namespace {

TEST(Handover, StrangersGetNothingAndTheMissingStayOnTheList) {
  absl::StatusOr<DescriptorHandover> door = DescriptorHandover::open();
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
  absl::StatusOr<DescriptorHandover> door = DescriptorHandover::open();
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
    const absl::StatusOr<DescriptorHandover> door = DescriptorHandover::open();
    ASSERT_TRUE(door.ok());
    closed = door->name();
  }
  const auto board = Board::meet(
      {1, absl::Seconds(5), *Watchdog::make()}, *DescriptorHandover::open(),
      {{"here", closed, 1}, {"here", "x", 2}}, Deadline::after(kLong));
  ASSERT_TRUE(board.ok()) << board.status();
  EXPECT_EQ(*board, nullptr);
}

// An earlier job's rank 0 still waits at its door, and what it said of itself
// is taken for this job's.
class AnEarlierJob : public testing::Test {
 protected:
  static constexpr uint64_t kEarlier = 0x1000, kPresent = 0x2000;
  void SetUp() override {
    absl::StatusOr<DescriptorHandover> door = DescriptorHandover::open();
    ASSERT_TRUE(door.ok());
    name_ = door->name();
    auto board =
        Board::meet({.rank = 0, .watchdog = earlier_.watchdog, .job = kEarlier},
                    *std::move(door), {{"here", name_, 1}, {"here", "x", 2}},
                    Deadline::never());
    ASSERT_TRUE(board.ok()) << board.status();
    earlier_.board = *std::move(board);
  }
  absl::StatusOr<std::shared_ptr<Board>> come(uint64_t job, uint64_t token) {
    return Board::meet({.rank = 1, .watchdog = present_.watchdog, .job = job},
                       *DescriptorHandover::open(),
                       {{"here", name_, 1}, {"here", "x", token}},
                       Deadline::after(kLong));
  }
  std::string name_;
  Rank earlier_, present_;
};

TEST_F(AnEarlierJob, GivesItsMemoryToNobodyElse) {
  const auto board = come(kPresent, 3);
  ASSERT_TRUE(board.ok()) << board.status();
  EXPECT_EQ(*board, nullptr);
  const auto late = come(kEarlier, 2);
  ASSERT_TRUE(late.ok()) << late.status();
  EXPECT_NE(*late, nullptr);
}

// Not even to whom it would.
TEST_F(AnEarlierJob, IsNotTakenForThePresentOne) {
  const auto board = come(kPresent, 2);
  const auto info = error_info(board.status());
  ASSERT_TRUE(info.has_value());
  EXPECT_EQ(info->reason, Reason::kRefused);
  EXPECT_EQ(info->what,
            "a rank of this host has handed over the memory of another job");
  EXPECT_EQ(info->expected, "job 2000");
  EXPECT_EQ(info->actual, "1000");
  EXPECT_EQ(info->ranks, std::vector<int>{0});
}

TEST(Board, WhoIsAloneOnAHostHasNone) {
  auto watchdog = *Watchdog::make();
  const auto board =
      Board::meet({0, absl::Seconds(5), watchdog}, *DescriptorHandover::open(),
                  {{"this", "a", 1}, {"another", "b", 2}}, Deadline::never());
  ASSERT_TRUE(board.ok()) << board.status();
  EXPECT_EQ(*board, nullptr);
}

}  // namespace
}  // namespace distwrap::comm
