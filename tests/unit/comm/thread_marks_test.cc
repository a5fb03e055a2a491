// Threads that make their first calls while others fork.
#include "comm/thread_marks.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <string>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace distwrap::comm {
namespace {

constexpr char kRole[] = "THREAD_MARKS_TEST_FIRST_CALL";

// A thread makes the first call of the process, this one forks meanwhile, and
// the child makes a call, too.
[[noreturn]] void first_calls(int spins) {
  std::atomic<bool> go{false};
  std::thread first([&] {
    while (!go.load()) {
    }
    for (std::atomic<int> i{0}; i < spins; ++i) {
    }
    ThreadMarks::mine();
  });
  go.store(true);
  const pid_t child = fork();
  if (child == 0) {
    alarm(10);
    ThreadMarks::mine();
    _exit(0);
  }
  int status = -1;
  waitpid(child, &status, 0);
  first.join();
  _exit(status == 0 ? 0 : 1);
}

TEST(ThreadMarks, AForkBesideTheFirstCallHangsNoChild) {
  if (const char* const spins = std::getenv(kRole))
    first_calls(std::atoi(spins));
  constexpr int kMoments = 100;
  for (int moment = 0; moment < kMoments; ++moment) {
    const std::string spins =
        std::string(kRole) + "=" + std::to_string(moment * 40);
    const pid_t fresh = vfork();
    if (fresh == 0) {
      const char* const arguments[] = {
          "comm_test",
          "--gtest_filter=ThreadMarks.AForkBesideTheFirstCallHangsNoChild",
          nullptr};
      const char* const environment[] = {spins.c_str(), nullptr};
      execve("/proc/self/exe", const_cast<char* const*>(arguments),
             const_cast<char* const*>(environment));
      _exit(2);
    }
    int status = -1;
    ASSERT_EQ(waitpid(fresh, &status, 0), fresh);
    ASSERT_EQ(status, 0) << "moment " << moment;
  }
}

}  // namespace
}  // namespace distwrap::comm
