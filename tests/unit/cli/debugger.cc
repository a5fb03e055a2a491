#include "unit/cli/debugger.h"

#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <sys/ptrace.h>
#include <sys/wait.h>

namespace distwrap::cli {

Debugger::Debugger(pid_t pid) {
  // A thread that has started meanwhile is found by the next look.
  for (bool found = true; found;) {
    found = false;
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator(
             absl::StrCat("/proc/", pid, "/task"), error)) {
      pid_t thread = 0;
      if (!absl::SimpleAtoi(entry.path().filename().string(), &thread) ||
          std::find(threads_.begin(), threads_.end(), thread) !=
              threads_.end() ||
          ptrace(PTRACE_SEIZE, thread, nullptr, nullptr) != 0)
        continue;
      EXPECT_EQ(ptrace(PTRACE_INTERRUPT, thread, nullptr, nullptr), 0);
      EXPECT_EQ(waitpid(thread, nullptr, __WALL), thread);
      threads_.push_back(thread);
      found = true;
    }
  }
}

Debugger::~Debugger() {
  for (const pid_t thread : threads_)
    EXPECT_EQ(ptrace(PTRACE_DETACH, thread, nullptr, nullptr), 0);
}

}  // namespace distwrap::cli
