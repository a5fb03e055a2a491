// Who gets the memory of a host.
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

TEST(Board, WhoIsAloneOnAHostHasNone) {
  auto watchdog = std::make_shared<Watchdog>();
  const auto board =
      Board::meet({0, absl::Seconds(5), watchdog}, *Door::open(),
                  {{"this", "a", 1}, {"another", "b", 2}}, Deadline::never());
  ASSERT_TRUE(board.ok()) << board.status();
  EXPECT_EQ(*board, nullptr);
}

}  // namespace
}  // namespace distwrap::comm
