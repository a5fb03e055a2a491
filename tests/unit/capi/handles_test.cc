#include "capi/handles.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <random>
#include <set>
#include <thread>
#include <vector>

namespace distwrap::capi {
namespace {

using Counted = HandleTable<std::shared_ptr<int>, Kind::kWork>;
using Marked = HandleTable<std::shared_ptr<int>, Kind::kGroup>;
static_assert(is_marked(Kind::kGroup) && !is_marked(Kind::kWork));

// A table is never destroyed.
template <class T>
T& fresh() {
  static auto* const all = new std::vector<T*>;
  all->push_back(new T);
  return *all->back();
}

template <class Table>
class Handles : public ::testing::Test {};
using Tables = ::testing::Types<Counted, Marked>;
TYPED_TEST_SUITE(Handles, Tables);

TYPED_TEST(Handles, NameWhatWasAdded) {
  auto& table = fresh<TypeParam>();
  const uint64_t one = table.add(std::make_shared<int>(1));
  const uint64_t two = table.add(std::make_shared<int>(2));
  EXPECT_EQ(**table.find(one), 1);
  EXPECT_EQ(**table.find(two), 2);
  EXPECT_NE(kind_of(one), Kind::kList);
}

TYPED_TEST(Handles, AreRefusedOnceFreed) {
  auto& table = fresh<TypeParam>();
  const auto value = std::make_shared<int>(1);
  const uint64_t handle = table.add(value);
  EXPECT_TRUE(table.remove(handle));
  EXPECT_EQ(value.use_count(), 1);
  EXPECT_FALSE(table.find(handle));
  EXPECT_FALSE(table.remove(handle));
  // The slot is reused with another generation.
  const uint64_t next = table.add(value);
  EXPECT_NE(next, handle);
  EXPECT_FALSE(table.find(handle));
  EXPECT_TRUE(table.find(next));
}

TYPED_TEST(Handles, OfAnotherKindAreRefused) {
  auto& table = fresh<TypeParam>();
  auto& other = fresh<HandleTable<std::shared_ptr<int>, Kind::kList>>();
  const uint64_t handle = table.add(std::make_shared<int>(1));
  other.add(std::make_shared<int>(1));
  EXPECT_FALSE(other.find(handle));
  EXPECT_FALSE(other.remove(handle));
}

TYPED_TEST(Handles, ThatNobodyGaveAreRefused) {
  auto& table = fresh<TypeParam>();
  const uint64_t mine = table.add(std::make_shared<int>(1));
  std::mt19937_64 random(7);
  for (int i = 0; i < 100000; ++i) {
    // Some differ from a valid handle by one bit.
    const uint64_t handle =
        i % 2 == 0 ? random() : mine ^ uint64_t { 1 } << random() % 64;
    if (handle == mine) continue;
    ASSERT_FALSE(table.find(handle)) << handle;
    ASSERT_FALSE(table.remove(handle)) << handle;
  }
  EXPECT_FALSE(table.find(0));
  EXPECT_TRUE(table.find(mine));
}

TYPED_TEST(Handles, WhatIsHeldStays) {
  auto& table = fresh<TypeParam>();
  const auto value = std::make_shared<int>(5);
  const uint64_t handle = table.add(value);
  {
    const auto held = table.find(handle);
    EXPECT_TRUE(table.remove(handle));
    EXPECT_FALSE(table.find(handle));
    EXPECT_EQ(**held, 5);
    EXPECT_EQ(value.use_count(), 2);
  }
  EXPECT_EQ(value.use_count(), 1);
}

TYPED_TEST(Handles, AreUsedSeveralAtOnce) {
  auto& table = fresh<TypeParam>();
  const auto one = std::make_shared<int>(1), two = std::make_shared<int>(2);
  const uint64_t first = table.add(one), second = table.add(two);
  {
    const auto a = table.find(first), again = table.find(first),
               b = table.find(second);
    EXPECT_TRUE(table.remove(first));
    EXPECT_TRUE(table.remove(second));
    EXPECT_EQ(**a + **again + **b, 4);
  }
  EXPECT_EQ(one.use_count(), 1);
  EXPECT_EQ(two.use_count(), 1);
}

// A thread that frees a handle does not wait for a thread that uses it.
TYPED_TEST(Handles, AreFreedUnderAUseOfAnotherThread) {
  auto& table = fresh<TypeParam>();
  const auto value = std::make_shared<int>(5);
  const uint64_t handle = table.add(value);
  std::atomic<int> step{0};
  std::thread user([&] {
    const auto held = table.find(handle);
    step = 1;
    while (step < 2) std::this_thread::yield();
    EXPECT_EQ(**held, 5);
  });
  while (step < 1) std::this_thread::yield();
  EXPECT_TRUE(table.remove(handle));
  EXPECT_FALSE(table.find(handle));
  EXPECT_EQ(value.use_count(), 2) << "the user has it";
  step = 2;
  user.join();
  EXPECT_EQ(value.use_count(), 1);
}

TYPED_TEST(Handles, ManyAreDistinctAndCome) {
  auto& table = fresh<TypeParam>();
  std::set<uint64_t> handles;
  for (int i = 0; i < 3000; ++i)
    handles.insert(table.add(std::make_shared<int>(i)));
  EXPECT_EQ(handles.size(), 3000u);
  for (const uint64_t handle : handles) EXPECT_TRUE(table.remove(handle));
}

// Some threads make and free handles, others use handles that may just be
// freed.
TYPED_TEST(Handles, AreUsedAndFreedByManyThreads) {
  auto& table = fresh<TypeParam>();
  const auto value = std::make_shared<int>(3);
  std::atomic<uint64_t> shared{0};
  std::atomic<bool> wrong{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < 2; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 20000; ++i) {
        const uint64_t old = shared.exchange(table.add(value));
        if (old != 0 && !table.remove(old)) wrong = true;
      }
    });
    threads.emplace_back([&] {
      for (int i = 0; i < 20000; ++i)
        if (const auto held = table.find(shared)) wrong = wrong || **held != 3;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_FALSE(wrong);
  EXPECT_TRUE(table.remove(shared));
  EXPECT_EQ(value.use_count(), 1);
}

}  // namespace
}  // namespace distwrap::capi
