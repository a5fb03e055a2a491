// The memory of the board is the neighbours' as well: nothing in it may hurt.
#include "base/error.h"
#include "board_fixture.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace distwrap::comm {
namespace {

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
