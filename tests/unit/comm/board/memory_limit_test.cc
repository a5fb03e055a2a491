// The board in a control group whose memory runs out: as many groups as there
// is room for, then an error, and no signal.
#include "base/descriptor.h"
#include "board_fixture.h"
#include "distwrap/abi/note.h"
#include "sdk/headroom.h"

#include <gtest/gtest.h>

#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <list>
#include <string>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

namespace distwrap::comm {
namespace {

// A control group below this process's own, while it lives.
class MemoryGroup {
 public:
  explicit MemoryGroup(uint64_t limit) {
    std::ifstream groups("/proc/self/cgroup");
    std::string line;
    while (std::getline(groups, line)) {
      const size_t path = line.find(':', line.find(':') + 1) + 1;
      const bool now = line.rfind("0::", 0) == 0;
      if (!now && line.find(":memory:") == std::string::npos) continue;
      folder_ = std::string("/sys/fs/cgroup") + (now ? "" : "/memory") +
                line.substr(path) + "/distwrap-test-" +
                std::to_string(getpid());
      std::error_code error;
      std::filesystem::create_directory(folder_, error);
      const std::string file = now ? "/memory.max" : "/memory.limit_in_bytes";
      if (!error && write(file, std::to_string(limit))) return;
      rmdir(folder_.c_str());
      folder_.clear();
    }
  }
  ~MemoryGroup() {
    if (!folder_.empty()) rmdir(folder_.c_str());
  }
  bool exists() const { return !folder_.empty(); }
  // Of the calling process.
  bool enter() const { return write("/cgroup.procs", "0"); }

 private:
  bool write(const std::string& file, const std::string& text) const {
    std::ofstream out(folder_ + file);
    out << text << std::flush;
    return out.good();
  }
  std::string folder_;
};

uint64_t left() {
  const dw_headroom room = dw_read_headroom();
  return room.limited != 0 ? room.left : UINT64_MAX;
}

// Takes memory until `rest` bytes are left.
base::Descriptor fill(uint64_t rest) {
  constexpr off_t kPart = 64 << 10;
  base::Descriptor ballast(memfd_create("ballast", MFD_CLOEXEC));
  off_t size = 0;
  while (left() > rest + kPart && fallocate(ballast.get(), 0, size, kPart) == 0)
    size += kPart;
  return ballast;
}

// In the control group: what is wrong, else nothing.
std::string run_out() {
  const auto ranks = meet(2);
  struct Group {
    Ear ear;
    std::unique_ptr<Lane> lane;
  };
  std::list<Group> groups;
  const auto open = [&] {
    const auto room = Board::make_room(ranks[0]->board, {0, 1});
    if (!room.ok()) return room.status();
    groups.emplace_back();
    groups.back().lane =
        Lane::open(ranks[0]->board, {"h", 100 + groups.size(), 0, {0, 1}});
    if (groups.back().lane != nullptr)
      groups.back().lane->tell(&groups.back().ear);
    return groups.back().lane != nullptr ? absl::OkStatus()
                                         : absl::InternalError("no lane");
  };
  // What the loop takes of the heap is there before.
  { const std::vector<std::string> some(8, std::string(12 << 10, 'x')); }
  base::Descriptor ballast = fill(128 << 10);
  absl::Status status;
  while (status.ok() && groups.size() < kMostLanes) status = open();
  const std::optional<ErrorInfo> info = error_info(status);
  if (!info.has_value() || info->reason != Reason::kOutOfMemory)
    return "after " + std::to_string(groups.size()) +
           " groups: " + std::string(status.message());
  if (info->expected != "4096 bytes" ||
      info->actual.find(" bytes left of its limit of 33554432") ==
          std::string::npos)
    return "no numbers: " + std::string(status.message());
  // The others go on, and so does this one when memory has come back.
  for (const auto& rank : ranks) rank->call(op_of(DW_OP_BARRIER, 0, 1));
  ballast = base::Descriptor();
  if (status = open(); !status.ok())
    return "not again: " + std::string(status.message());
  if (ranks[0]->ear.wait(kLooks).has_value()) return "the world broke";
  return "";
}

TEST(MemoryLimit, IsAnErrorAndNoSignal) {
  const MemoryGroup group(32 << 20);
  if (DW_SANITIZER != DW_SANITIZER_NONE)
    GTEST_SKIP() << "a sanitizer takes memory of its own all the time";
  if (!group.exists())
    GTEST_SKIP() << "this process may not make control groups with a limit of "
                    "memory";
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    if (!group.enter()) _exit(2);
    const std::string wrong = run_out();
    if (!wrong.empty()) std::cerr << wrong << std::endl;
    _exit(wrong.empty() ? 0 : 1);
  }
  int ended = 0;
  ASSERT_EQ(waitpid(child, &ended, 0), child);
  ASSERT_TRUE(WIFEXITED(ended)) << "signal " << WTERMSIG(ended);
  EXPECT_EQ(WEXITSTATUS(ended), 0);
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
  for (const auto& rank : ranks) rank->lane.reset();
  {
    const auto one = Board::make_room(ranks[0]->board, {0, 1});
    const auto two = Board::make_room(ranks[0]->board, {0, 2});
    ASSERT_TRUE(one.ok() && two.ok());
    EXPECT_EQ(pages_of_the_board(), 3u * (1 + 1) + 1);
    // Of which no other member is here.
    EXPECT_TRUE(Board::make_room(ranks[0]->board, {0, 7}).ok());
    EXPECT_TRUE(Board::make_room(nullptr, {0, 1}).ok());
  }
  // Groups that come and go use the same again.
  for (int times = 0; times < 10; ++times) {
    const auto room = Board::make_room(ranks[0]->board, {0, 1});
    EXPECT_NE(Lane::open(ranks[0]->board, {"h", 9, 0, {0, 1}}), nullptr);
  }
  EXPECT_EQ(pages_of_the_board(), 3u * (1 + 1) + 1);
}

}  // namespace
}  // namespace distwrap::comm
