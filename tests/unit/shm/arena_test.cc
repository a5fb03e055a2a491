// The memory that groups share: who gets what, when it is used again, and what
// is refused.
#include "arena.h"

#include "room.h"
#include "sdk/fail.h"
#include "unit/memory_group.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>
#include <vector>

namespace shm_backend {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using Kind = Arena::Kind;

const size_t kAreaOfTwo = area_bytes(2);

// The arena of two ranks, as each of them has it.
class Two : public testing::Test {
 protected:
  Two() { open(); }
  void open() {
    Header header = {kSegmentMagic, 7, 5, 1, 2, 0, kSmallStage + (1 << 20), 0};
    dw_error error = {};
    for (auto& one : arenas) one = std::make_shared<Arena>();
    EXPECT_EQ(arenas[0]->create(header, &error), DW_OK) << error.text;
    EXPECT_EQ(
        arenas[1]->adopt(Descriptor(dup(arenas[0]->fd())), header, &error),
        DW_OK)
        << error.text;
    arenas[0]->settle(0);
    arenas[1]->settle(1);
  }

  // The rooms of a group of the two ranks.
  struct Group {
    std::unique_ptr<Room> rooms[2];
  };
  Group make() {
    Group group;
    std::vector<Arena::Member> members;
    for (const int rank : {0, 1}) {
      group.rooms[rank] = std::make_unique<Room>();
      EXPECT_EQ(group.rooms[rank]->enter(arenas[rank], 2, ++token_, nullptr),
                DW_OK);
      members.push_back({rank, group.rooms[rank]->place(), token_});
    }
    for (const int rank : {0, 1})
      EXPECT_EQ(group.rooms[rank]->meet(rank, members, nullptr), DW_OK);
    return group;
  }

  std::shared_ptr<Arena> arenas[2];
  uint64_t token_ = 100;
};

TEST_F(Two, SeeWhatTheOtherWrites) {
  Group group = make();
  size_t at = 0;
  ASSERT_EQ(group.rooms[0]->take(1000, &at, nullptr), DW_OK);
  group.rooms[0]->own(at)[999] = 'x';
  const char* const seen = group.rooms[1]->find(0, at, 1000);
  ASSERT_NE(seen, nullptr);
  EXPECT_EQ(seen[999], 'x');
}

TEST_F(Two, WhatWasLeftIsUsedAgainOnceTheOtherHasLeftToo) {
  Group group = make();
  const size_t place = group.rooms[0]->place();
  group.rooms[0].reset();
  Group second = make();
  EXPECT_NE(second.rooms[0]->place(), place) << "rank 1 may still look there";
  group.rooms[1].reset();
  EXPECT_EQ(make().rooms[0]->place(), place);
}

TEST_F(Two, WhatWasNeverMetIsUsedAgainAtOnce) {
  auto given_up = std::make_unique<Room>();
  ASSERT_EQ(given_up->enter(arenas[0], 2, 1, nullptr), DW_OK);
  const size_t place = given_up->place();
  given_up.reset();
  Room next;
  ASSERT_EQ(next.enter(arenas[0], 2, 2, nullptr), DW_OK);
  EXPECT_EQ(next.place(), place);
}

TEST_F(Two, AnAreaStaysOne) {
  make();
  Arena::Piece area, data;
  ASSERT_EQ(arenas[0]->take(Kind::kData, kAreaOfTwo, &data, nullptr), DW_OK);
  ASSERT_EQ(arenas[0]->take(Kind::kArea, kAreaOfTwo, &area, nullptr), DW_OK);
  EXPECT_LT(area.at, data.at) << "the area that was left";
}

// A process that is over does not say that it leaves.
TEST_F(Two, WhatADeadMemberCouldReadIsUsedAgain) {
  const pid_t pid = fork();
  if (pid == 0) {
    pause();
    _exit(0);
  }
  arenas[0]->watch.add(
      Descriptor(static_cast<int>(syscall(SYS_pidfd_open, pid, 0))), {1});
  Group group = make();
  const size_t place = group.rooms[0]->place();
  group.rooms[0].reset();
  const auto places_now = [&] {
    std::vector<size_t> places;
    Arena::Piece piece;
    // Until memory has to be reserved, which is when the dead are looked for.
    for (int i = 0; i < 40; ++i) {
      EXPECT_EQ(arenas[0]->take(Kind::kArea, kAreaOfTwo, &piece, nullptr),
                DW_OK);
      places.push_back(piece.at);
    }
    return places;
  };
  EXPECT_THAT(places_now(), testing::Not(testing::Contains(place)));
  kill(pid, SIGKILL);
  waitpid(pid, nullptr, 0);
  EXPECT_THAT(places_now(), testing::Contains(place));
}

// No piece of two that are in use touches another, in any order of the ends.
TEST_F(Two, PiecesInUseDoNotOverlap) {
  std::mt19937 random(3);
  std::vector<std::pair<Arena::Piece, uint32_t>> used;
  for (uint32_t step = 0; step < 3000; ++step) {
    if (random() % 2 == 0 || used.empty()) {
      Arena::Piece piece;
      const size_t bytes = 1 + random() % 3 * 2000;
      ASSERT_EQ(arenas[0]->take(random() % 2 == 0 ? Kind::kArea : Kind::kData,
                                bytes, &piece, nullptr),
                DW_OK);
      EXPECT_EQ(piece.at % 128, 0u);
      EXPECT_NE(piece.at, 0u);
      EXPECT_GE(piece.bytes, bytes);
      auto* const words = reinterpret_cast<uint32_t*>(arenas[0]->own(piece.at));
      std::fill(words, words + piece.bytes / 4, step);
      used.push_back({piece, step});
    } else {
      const size_t which = random() % used.size();
      const auto [piece, number] = used[which];
      const auto* const words =
          reinterpret_cast<uint32_t*>(arenas[0]->own(piece.at));
      EXPECT_EQ(std::count(words, words + piece.bytes / 4, number),
                static_cast<int64_t>(piece.bytes / 4));
      arenas[0]->retire({piece}, {});
      used.erase(used.begin() + static_cast<long>(which));
    }
  }
}

TEST_F(Two, WhatIsNotThereIsNotFound) {
  Group group = make();
  EXPECT_NE(arenas[0]->find(1, 128, kAreaOfTwo), nullptr);
  const size_t all = arenas[0]->plot_bytes();
  for (const size_t at : {all / 2, all - 1, all, all + 1, SIZE_MAX - 8})
    EXPECT_EQ(arenas[0]->find(1, at, 16), nullptr) << at;
  EXPECT_EQ(arenas[0]->find(1, 0, all), nullptr);
  EXPECT_EQ(arenas[0]->find(1, 16, SIZE_MAX), nullptr);
}

TEST_F(Two, PlacesThatCannotBeNameTheRank) {
  Room room;
  ASSERT_EQ(room.enter(arenas[0], 2, 1, nullptr), DW_OK);
  for (const size_t at :
       {size_t{0}, size_t{64}, size_t{1} << 29, arenas[0]->plot_bytes() - 128,
        arenas[0]->plot_bytes(), SIZE_MAX - 127}) {
    dw_error error = {};
    EXPECT_EQ(room.meet(0, {{0, room.place(), 1}, {1, at, 2}}, &error),
              DW_FAILED_PRECONDITION);
    EXPECT_EQ(error.reason, DW_REASON_REFUSED);
    EXPECT_EQ(error.peer, 1) << error.text;
    EXPECT_FALSE(room.is_open());
  }
}

TEST_F(Two, BeyondThePlotIsAnErrorWithBothNumbers) {
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit low = {2 << 20, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &low), 0);
  open();
  setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_LE(arenas[0]->plot_bytes(), size_t{1} << 20);
  std::vector<std::unique_ptr<Room>> rooms;
  dw_error error = {};
  int32_t code = DW_OK;
  while (code == DW_OK && rooms.size() < 1000) {
    rooms.push_back(std::make_unique<Room>());
    code = rooms.back()->enter(arenas[0], 2, ++token_, &error);
  }
  EXPECT_EQ(code, DW_RESOURCE_EXHAUSTED);
  EXPECT_EQ(error.reason, DW_REASON_OUT_OF_MEMORY);
  EXPECT_THAT(error.text,
              ContainsRegex("[1-9][0-9]* KiB of shared memory are needed"));
  EXPECT_THAT(error.text, HasSubstr("0 KiB are left of the 1020 KiB"));
  EXPECT_GT(rooms.size(), 55u);
  rooms.clear();
  Room again;
  EXPECT_EQ(again.enter(arenas[0], 2, 1, &error), DW_OK) << error.text;
}

// In a control group: what is wrong, else nothing.
std::string run_out_of_memory() {
  const Header header = {kSegmentMagic,           7, 5, 1, 2, 0,
                         kSmallStage + (1 << 20), 0};
  const auto arena = std::make_shared<Arena>();
  dw_error error = {};
  if (arena->create(header, &error) != DW_OK) return error.text;
  arena->settle(0);
  // The heap memory of the loop is allocated before.
  std::vector<std::unique_ptr<Room>> rooms;
  for (int i = 0; i < 500; ++i) rooms.push_back(std::make_unique<Room>());
  distwrap::testing::Ballast ballast(512 << 10);
  size_t made = 0;
  while (made < rooms.size() &&
         rooms[made]->enter(arena, 2, made + 1, &error) == DW_OK)
    ++made;
  const std::string text = error.text;
  if (made == rooms.size()) return "there is no end";
  // Each takes 20 KiB; the kernel charges a processor's memory in batches, so
  // that a part of the 512 KiB may be gone.
  if (made < 4) return "none after " + std::to_string(made) + ": " + text;
  if (error.reason != DW_REASON_OUT_OF_MEMORY ||
      text.find("KiB of shared memory are needed, but the control group has") ==
          std::string::npos ||
      text.find("of its limit of 32768 KiB") == std::string::npos)
    return text;
  // Memory that is held can be used, and more when memory is available again.
  for (size_t i = 0; i < made; ++i)
    std::memset(&arena->own(rooms[i]->place())[0], 1, sizeof(uint64_t));
  ballast.drop();
  return rooms[made]->enter(arena, 2, 1, &error) == DW_OK ? "" : error.text;
}

TEST(ArenaMemory, BeyondTheControlGroupIsAnErrorWithBothNumbers) {
  distwrap::testing::expect_within_memory(32 << 20, run_out_of_memory);
}

}  // namespace
}  // namespace shm_backend
