// Threads call and open scopes while modules come and go.
#include "guarded.h"

#include <thread>
#include <vector>

namespace distwrap {
namespace {

class GuardThreads : public Guard {};

TEST_F(GuardThreads, CallWhileModulesComeAndGo) {
  const Session session = session_of_one(GuardMode::kBlock);
  std::atomic<bool> stop{false};
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 32; ++i)
    threads.emplace_back([&, i] {
      while (!stop) {
        if (i % 4 == 0) {
          const GuardAllow allow("a thread");
          wrong += call_send() != kDone;
        } else {
          wrong += call_send() != kRefused;
        }
        if (i == 1) guard_status();
      }
    });
  for (int i = 0; i < 60; ++i) {
    const Loaded caller(i % 2 == 0 ? CALLER : NETWORK_CALLER);
    EXPECT_EQ(caller("call_send"), i % 2 == 0 ? kRefused : kDone);
    if (i % 10 == 0) {
      const Session other = session_of_one(GuardMode::kWarn);
      EXPECT_TRUE(other.close().ok());
    }
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_TRUE(session.close().ok());
}

}  // namespace
}  // namespace distwrap
