// Threads that take no signals of the program.
#include "base/quiet_thread.h"

#include <gtest/gtest.h>

#include <signal.h>

namespace distwrap::base {
namespace {

TEST(QuietThread, TakesOnlyWhatItCauses) {
  sigset_t inside;
  sigemptyset(&inside);
  quiet_thread([&] { pthread_sigmask(SIG_SETMASK, nullptr, &inside); }).join();
  for (const int of_the_process : {SIGINT, SIGTERM, SIGALRM, SIGUSR1, SIGCHLD})
    EXPECT_EQ(sigismember(&inside, of_the_process), 1) << of_the_process;
  for (const int own : {SIGSEGV, SIGBUS, SIGFPE, SIGABRT})
    EXPECT_EQ(sigismember(&inside, own), 0) << own;
}

TEST(QuietThread, LeavesTheCallerAsItIs) {
  sigset_t before, after;
  ASSERT_EQ(pthread_sigmask(SIG_SETMASK, nullptr, &before), 0);
  quiet_thread([] {}).join();
  ASSERT_EQ(pthread_sigmask(SIG_SETMASK, nullptr, &after), 0);
  for (int signal = 1; signal < 32; ++signal)
    EXPECT_EQ(sigismember(&after, signal), sigismember(&before, signal));
}

}  // namespace
}  // namespace distwrap::base
