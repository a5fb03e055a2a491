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

using Table = HandleTable<std::shared_ptr<int>, Kind::kWork>;
using Other = HandleTable<std::shared_ptr<int>, Kind::kGroup>;

// A table is for ever.
template <class T>
T& fresh() {
  static auto* const all = new std::vector<T*>;
  all->push_back(new T);
  return *all->back();
}

TEST(Handles, NameWhatWasAdded) {
  Table& table = fresh<Table>();
  const uint64_t one = table.add(std::make_shared<int>(1));
  const uint64_t two = table.add(std::make_shared<int>(2));
  EXPECT_EQ(**table.find(one), 1);
  EXPECT_EQ(**table.find(two), 2);
  EXPECT_EQ(kind_of(one), Kind::kWork);
}

TEST(Handles, AreRefusedOnceFreed) {
  Table& table = fresh<Table>();
  const auto value = std::make_shared<int>(1);
  const uint64_t handle = table.add(value);
  EXPECT_TRUE(table.remove(handle));
  EXPECT_EQ(value.use_count(), 1);
  EXPECT_FALSE(table.find(handle));
  EXPECT_FALSE(table.remove(handle));
  // The slot is used again under another name.
  const uint64_t next = table.add(value);
  EXPECT_NE(next, handle);
  EXPECT_FALSE(table.find(handle));
  EXPECT_TRUE(table.find(next));
}

TEST(Handles, OfAnotherKindAreRefused) {
  Table& table = fresh<Table>();
  Other& other = fresh<Other>();
  const uint64_t handle = table.add(std::make_shared<int>(1));
  other.add(std::make_shared<int>(1));
  EXPECT_FALSE(other.find(handle));
  EXPECT_FALSE(other.remove(handle));
}

TEST(Handles, ThatNobodyGaveAreRefused) {
  Table& table = fresh<Table>();
  const uint64_t mine = table.add(std::make_shared<int>(1));
  std::mt19937_64 random(7);
  for (int i = 0; i < 100000; ++i) {
    // Some close to a good one, by one flipped bit.
    const uint64_t handle =
        i % 2 == 0 ? random() : mine ^ uint64_t { 1 } << random() % 64;
    if (handle == mine) continue;
    ASSERT_FALSE(table.find(handle)) << handle;
    ASSERT_FALSE(table.remove(handle)) << handle;
  }
  EXPECT_FALSE(table.find(0));
  EXPECT_TRUE(table.find(mine));
}

TEST(Handles, WhatIsHeldStays) {
  Table& table = fresh<Table>();
  const auto value = std::make_shared<int>(5);
  const uint64_t handle = table.add(value);
  {
    const Table::Held held = table.find(handle);
    EXPECT_TRUE(table.remove(handle));
    EXPECT_FALSE(table.find(handle));
    EXPECT_EQ(**held, 5);
    EXPECT_EQ(value.use_count(), 2);
  }
  EXPECT_EQ(value.use_count(), 1);
}

TEST(Handles, ManyAreDistinctAndCome) {
  Table& table = fresh<Table>();
  std::set<uint64_t> handles;
  for (int i = 0; i < 3000; ++i)
    handles.insert(table.add(std::make_shared<int>(i)));
  EXPECT_EQ(handles.size(), 3000u);
  for (const uint64_t handle : handles) EXPECT_TRUE(table.remove(handle));
}

// Some threads make and free, others use what may just go.
TEST(Handles, AreUsedAndFreedByManyThreads) {
  Table& table = fresh<Table>();
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
