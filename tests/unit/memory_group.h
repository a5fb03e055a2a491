// A process in a control group that runs out of memory.
#ifndef DISTWRAP_TESTS_UNIT_MEMORY_GROUP_H_
#define DISTWRAP_TESTS_UNIT_MEMORY_GROUP_H_

#include "distwrap/abi/note.h"
#include "sdk/headroom.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <string>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

namespace distwrap::testing {

// A control group below this process's own, while the object lives.
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
  // Moves the calling process into the group.
  bool enter() const { return write("/cgroup.procs", "0"); }

 private:
  bool write(const std::string& file, const std::string& text) const {
    std::ofstream out(folder_ + file);
    out << text << std::flush;
    return out.good();
  }
  std::string folder_;
};

// Allocates memory until `rest` bytes of the control group's limit are left.
class Ballast {
 public:
  explicit Ballast(uint64_t rest) : fd_(memfd_create("ballast", MFD_CLOEXEC)) {
    constexpr off_t kPart = 64 << 10;
    off_t size = 0;
    while (left() > rest + kPart && fallocate(fd_, 0, size, kPart) == 0)
      size += kPart;
  }
  ~Ballast() { drop(); }
  Ballast(const Ballast&) = delete;
  Ballast& operator=(const Ballast&) = delete;
  void drop() {
    if (fd_ >= 0) close(fd_);
    fd_ = -1;
  }

 private:
  static uint64_t left() {
    const dw_headroom room = dw_read_headroom();
    return room.limited != 0 ? room.left : UINT64_MAX;
  }
  int fd_;
};

// Runs `body` in a process with this memory limit. The process has to end by
// itself; the body returns a mistake, or "".
inline void expect_within_memory(uint64_t limit,
                                 const std::function<std::string()>& body) {
  const MemoryGroup group(limit);
  if (DW_SANITIZER != DW_SANITIZER_NONE)
    GTEST_SKIP() << "a sanitizer takes memory of its own all the time";
  if (!group.exists())
    GTEST_SKIP() << "this process may not make control groups with a limit of "
                    "memory";
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    if (!group.enter()) _exit(2);
    const std::string wrong = body();
    if (!wrong.empty()) std::cerr << wrong << std::endl;
    _exit(wrong.empty() ? 0 : 1);
  }
  int ended = 0;
  ASSERT_EQ(waitpid(child, &ended, 0), child);
  ASSERT_TRUE(WIFEXITED(ended)) << "signal " << WTERMSIG(ended);
  EXPECT_EQ(WEXITSTATUS(ended), 0);
}

}  // namespace distwrap::testing

#endif  // DISTWRAP_TESTS_UNIT_MEMORY_GROUP_H_
