// A lock that is none until a second thread comes.
#include "lazy_lock.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

namespace shm_backend {
namespace {

// A read and a write: two threads at a time would lose some.
void count(int* number) {
  const int before = *number;
  std::this_thread::yield();
  *number = before + 1;
}

TEST(LazyLock, TheFirstThreadLearnsOfOthersAtAnyPlace) {
  for (int round = 0; round < 200; ++round) {
    LazyLock lock;
    int number = 0;
    std::atomic<int> begun{0};
    std::thread first([&] {
      for (int i = 0; i < 200; ++i) {
        begun = i;
        const LazyLock::Hold hold(lock);
        count(&number);
      }
    });
    while (begun < round / 2) {
    }
    std::vector<std::thread> others;
    for (int t = 0; t < 2; ++t)
      others.emplace_back([&] {
        lock.share();
        for (int i = 0; i < 20; ++i) {
          const LazyLock::Hold hold(lock);
          count(&number);
        }
      });
    first.join();
    for (std::thread& other : others) other.join();
    ASSERT_EQ(number, 240) << "in round " << round;
    EXPECT_TRUE(lock.is_shared());
  }
}

TEST(LazyLock, ATryGoesWithoutWhatAnotherHas) {
  LazyLock lock;
  {
    const LazyLock::Hold alone(lock, std::try_to_lock);
    EXPECT_TRUE(alone.owns());
  }
  lock.share();
  auto held = std::make_unique<LazyLock::Hold>(lock);
  std::thread([&] {
    EXPECT_FALSE(LazyLock::Hold(lock, std::try_to_lock).owns());
  }).join();
  held->release();
  EXPECT_FALSE(held->owns());
  std::thread([&] {
    EXPECT_TRUE(LazyLock::Hold(lock, std::try_to_lock).owns());
  }).join();
}

}  // namespace
}  // namespace shm_backend
