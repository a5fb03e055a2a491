// Threads of the library: they take no signals of the program, they have a
// name, and one that cannot start is an error.
#include "base/thread.h"

#include "distwrap/status.h"

#include <gtest/gtest.h>

#include <pthread.h>
#include <signal.h>
#include <string>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

namespace distwrap::base {
namespace {

TEST(Thread, TakesOnlySignalsThatItCauses) {
  sigset_t inside;
  sigemptyset(&inside);
  start_thread("dw-test", [&] {
    pthread_sigmask(SIG_SETMASK, nullptr, &inside);
  })->join();
  for (const int of_the_process : {SIGINT, SIGTERM, SIGALRM, SIGUSR1, SIGCHLD})
    EXPECT_EQ(sigismember(&inside, of_the_process), 1) << of_the_process;
  for (const int own : {SIGSEGV, SIGBUS, SIGFPE, SIGABRT})
    EXPECT_EQ(sigismember(&inside, own), 0) << own;
}

TEST(Thread, LeavesTheCallersSignals) {
  sigset_t before, after;
  ASSERT_EQ(pthread_sigmask(SIG_SETMASK, nullptr, &before), 0);
  start_thread("dw-test", [] {})->join();
  ASSERT_EQ(pthread_sigmask(SIG_SETMASK, nullptr, &after), 0);
  for (int signal = 1; signal < 32; ++signal)
    EXPECT_EQ(sigismember(&after, signal), sigismember(&before, signal));
}

TEST(Thread, HasItsName) {
  char name[16] = {};
  start_thread("dw-test", [&] {
    pthread_getname_np(pthread_self(), name, sizeof name);
  })->join();
  EXPECT_STREQ(name, "dw-test");
}

// In a child, since the limit is of a process.
TEST(Thread, OneThatCannotStartIsAnError) {
  if (geteuid() != 0) GTEST_SKIP() << "only root may become another user";
  const pid_t child = fork();
  if (child == 0) {
    const rlimit two = {2, 2};
    if (setrlimit(RLIMIT_NPROC, &two) != 0 ||
        setresuid(54321, 54321, 54321) != 0)
      _exit(2);
    const auto first = start_thread("dw-first", [] { pause(); });
    const auto second = start_thread("dw-second", [] {});
    const auto info = error_info(second.status());
    const bool told = info.has_value() &&
                      info->reason == Reason::kResourceLimit &&
                      info->what.find("dw-second") != std::string::npos &&
                      info->setting.find("ulimit -u") != std::string::npos &&
                      info->setting.find("now 2") != std::string::npos &&
                      info->next_step.find("raise") != std::string::npos;
    _exit(first.ok() && told ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

}  // namespace
}  // namespace distwrap::base
