// The board in a control group whose memory runs out: as many groups as there
// is room for, then an error, and no signal.
#include "board_fixture.h"
#include "unit/memory_group.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <list>
#include <string>
#include <sys/stat.h>
#include <vector>

namespace distwrap::comm {
namespace {

using testing::Ballast;

// In the control group: what is wrong, else nothing.
std::string run_out() {
  const auto ranks = meet(2);
  struct Group {
    Ear ear;
    std::unique_ptr<GroupBoard> group_board;
  };
  std::list<Group> groups;
  const auto open = [&] {
    const auto room = Board::make_room(ranks[0]->board, {0, 1});
    if (!room.ok()) return room.status();
    groups.emplace_back();
    groups.back().group_board = GroupBoard::open(
        ranks[0]->board, {"h", 100 + groups.size(), 0, {0, 1}});
    if (groups.back().group_board != nullptr)
      groups.back().group_board->tell(&groups.back().ear);
    return groups.back().group_board != nullptr
               ? absl::OkStatus()
               : absl::InternalError("no group_board");
  };
  // The heap memory of the loop is allocated before.
  { const std::vector<std::string> some(8, std::string(12 << 10, 'x')); }
  Ballast ballast(128 << 10);
  absl::Status status;
  while (status.ok() && groups.size() < kMostGroupPages) status = open();
  const std::optional<ErrorInfo> info = error_info(status);
  if (!info.has_value() || info->reason != Reason::kOutOfMemory)
    return "after " + std::to_string(groups.size()) +
           " groups: " + std::string(status.message());
  if (info->expected != "4096 bytes, and 65536 that stay free" ||
      info->actual.find(" bytes left of its limit of 33554432") ==
          std::string::npos)
    return "no numbers: " + std::string(status.message());
  // All other ranks go on, and so does this one when it has memory again.
  for (const auto& rank : ranks) rank->call(op_of(DW_OP_BARRIER, 0, 1));
  ballast.drop();
  if (status = open(); !status.ok())
    return "not again: " + std::string(status.message());
  if (ranks[0]->ear.wait(kLooks).has_value()) return "the world broke";
  return "";
}

TEST(MemoryLimit, IsAnErrorAndNoSignal) {
  testing::expect_within_memory(32 << 20, run_out);
}

// As `ls` of the descriptor would tell: pages that are there.
size_t pages_of_the_board() {
  for (const auto& entry :
       std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    const auto target = std::filesystem::read_symlink(entry.path(), gone);
    struct stat found = {};
    if (target.string().rfind("/memfd:distwrap board", 0) == 0 &&
        stat(entry.path().c_str(), &found) == 0)
      return static_cast<size_t>(found.st_blocks) * 512 / kPageBytes;
  }
  return 0;
}

TEST(MemoryLimit, ARankHasAPageToBeginWithAndOneForEachGroup) {
  const auto ranks = meet(3);
  EXPECT_EQ(pages_of_the_board(), 3u * (1 + 1));
  for (const auto& rank : ranks) rank->group_board.reset();
  {
    const auto one = Board::make_room(ranks[0]->board, {0, 1});
    const auto two = Board::make_room(ranks[0]->board, {0, 2});
    ASSERT_TRUE(one.ok() && two.ok());
    EXPECT_EQ(pages_of_the_board(), 3u * (1 + 1) + 1);
    // No other member of this group is here.
    EXPECT_TRUE(Board::make_room(ranks[0]->board, {0, 7}).ok());
    EXPECT_TRUE(Board::make_room(nullptr, {0, 1}).ok());
  }
  // Groups that come and go use the same again.
  for (int times = 0; times < 10; ++times) {
    const auto room = Board::make_room(ranks[0]->board, {0, 1});
    EXPECT_NE(GroupBoard::open(ranks[0]->board, {"h", 9, 0, {0, 1}}), nullptr);
  }
  EXPECT_EQ(pages_of_the_board(), 3u * (1 + 1) + 1);
}

}  // namespace
}  // namespace distwrap::comm
