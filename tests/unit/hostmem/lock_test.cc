// A lock that is nearly free until a second thread comes.
#include "hostmem/lock.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

namespace dw_hostmem {
namespace {

// A read and a write: two threads at a time would lose some.
void count(int* number) {
  const int before = *number;
  std::this_thread::yield();
  *number = before + 1;
}

TEST(LockTest, TheFirstThreadLearnsOfOthersAtAnyPlace) {
  for (int round = 0; round < 200; ++round) {
    Lock lock;
    int number = 0;
    std::atomic<int> begun{0};
    std::thread first([&] {
      for (int i = 0; i < 200; ++i) {
        begun = i;
        const Lock::Hold hold(lock);
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
          const Lock::Hold hold(lock);
          count(&number);
        }
      });
    first.join();
    for (std::thread& other : others) other.join();
    ASSERT_EQ(number, 240) << "in round " << round;
    EXPECT_TRUE(lock.is_shared());
  }
}

TEST(LockTest, ATryGoesWithoutWhatAnotherHas) {
  Lock lock;
  {
    const Lock::Hold alone(lock, std::try_to_lock);
    EXPECT_TRUE(alone.owns());
  }
  lock.share();
  auto held = std::make_unique<Lock::Hold>(lock);
  std::thread([&] {
    EXPECT_FALSE(Lock::Hold(lock, std::try_to_lock).owns());
  }).join();
  held->release();
  EXPECT_FALSE(held->owns());
  std::thread([&] {
    EXPECT_TRUE(Lock::Hold(lock, std::try_to_lock).owns());
  }).join();
}

TEST(LockTest, AClaimForOneUseLeavesTheLockToItsUsualThread) {
  Lock lock;
  lock.claim();
  EXPECT_FALSE(lock.enter());
  EXPECT_TRUE(lock.try_lock());
  EXPECT_FALSE(lock.try_lock());
  lock.unlock();
  lock.unclaim();
  if (lock.is_shared()) GTEST_SKIP() << "the kernel has no membarrier";
  EXPECT_TRUE(lock.enter());
  std::thread([&] {
    lock.claim();
    EXPECT_FALSE(lock.try_lock());
    lock.unclaim();
  }).join();
  EXPECT_FALSE(lock.wanted_from_inside());
  lock.leave();
}

// The threads wait for so long that they sleep.
TEST(LockTest, SleepersAreWokenOneAfterTheOther) {
  Lock lock;
  lock.share();
  int number = 0;
  std::vector<std::thread> others;
  {
    const Lock::Hold held(lock);
    for (int t = 0; t < 4; ++t)
      others.emplace_back([&] {
        for (int i = 0; i < 50; ++i) {
          const Lock::Hold hold(lock);
          count(&number);
          if (i % 10 == 0)
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
      });
    while (!lock.wanted()) std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    EXPECT_EQ(number, 0);
  }
  for (std::thread& other : others) other.join();
  EXPECT_EQ(number, 200);
  EXPECT_FALSE(lock.wanted());
}

}  // namespace
}  // namespace dw_hostmem
