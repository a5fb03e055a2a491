#include "comm/call_guard.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

namespace distwrap::comm {
namespace {

TEST(CallGuard, NobodyInside) {
  int64_t object = 0;
  EXPECT_TRUE(CallGuard::wait_until_left(
      &object, Deadline::after(absl::ZeroDuration())));
}

TEST(CallGuard, SomebodyInsideIsSeenToTheDeadline) {
  int64_t object = 0, other = 0;
  const CallGuard inside(&object);
  EXPECT_FALSE(CallGuard::wait_until_left(
      &object, Deadline::after(absl::Milliseconds(2))));
  EXPECT_TRUE(CallGuard::wait_until_left(
      &other, Deadline::after(absl::ZeroDuration())));
}

// The use it is for: an object that is closed and freed under calls of other
// threads. Without the guard, or with a weaker one, sanitizers report a use of
// freed memory.
TEST(CallGuard, AnObjectIsFreedOnlyWhenCallsHaveLeft) {
  struct Object {
    std::atomic<bool> open{true};
    std::unique_ptr<int> memory = std::make_unique<int>(7);
  };
  for (int round = 0; round < 50; ++round) {
    Object object;
    std::atomic<int> started{0};
    std::vector<std::thread> callers;
    for (int t = 0; t < 3; ++t)
      callers.emplace_back([&] {
        ++started;
        for (;;) {
          const CallGuard inside(&object);
          if (!object.open.load()) return;
          ASSERT_EQ(*object.memory, 7);
        }
      });
    while (started < 3) std::this_thread::yield();
    object.open.store(false);
    ASSERT_TRUE(CallGuard::wait_until_left(&object,
                                           Deadline::after(absl::Seconds(30))));
    object.memory.reset();
    for (std::thread& caller : callers) caller.join();
  }
}

}  // namespace
}  // namespace distwrap::comm
