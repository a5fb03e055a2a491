// The heap of a rank: what is taken, found and given back.
#include "arena.h"
#include "unit/memory_group.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <utility>
#include <vector>

namespace shm_backend {
namespace {

class HeapTest : public ::testing::Test {
 protected:
  void SetUp() override {
    Header header = {};
    header.magic = kSegmentMagic;
    header.size = 1;
    header.stage_bytes = kSmallStage;
    ASSERT_EQ(arena_.create(header, nullptr), DW_OK);
    arena_.settle(0);
  }
  Arena arena_;
  Heap& heap_ = arena_.heap();
};

TEST_F(HeapTest, KnowsItsOwn) {
  size_t place = 0;
  char* data = nullptr;
  int elsewhere = 0;
  EXPECT_EQ(heap_.place_of(&elsewhere, sizeof elsewhere), 0u);
  EXPECT_EQ(heap_.place_of(reinterpret_cast<void*>(0x1000), 1), 0u);
  ASSERT_EQ(heap_.take(10000, &place, &data, nullptr), DW_OK);
  EXPECT_EQ(heap_.place_of(data + 64, 100), place + 64);
  EXPECT_EQ(heap_.find(0, place, 10000), data);
  EXPECT_EQ(heap_.place_of(&elsewhere, sizeof elsewhere), 0u);
  EXPECT_EQ(heap_.give_back(place, 10000, nullptr), DW_OK);
}

TEST_F(HeapTest, UsesAgainWhatWasGivenBack) {
  size_t a = 0, b = 0, c = 0, again = 0;
  char* data = nullptr;
  ASSERT_EQ(heap_.take(8192, &a, &data, nullptr), DW_OK);
  std::memset(data, 7, 8192);
  ASSERT_EQ(heap_.take(4096, &b, &data, nullptr), DW_OK);
  ASSERT_EQ(heap_.take(4096, &c, &data, nullptr), DW_OK);
  EXPECT_EQ(heap_.give_back(a, 8192, nullptr), DW_OK);
  EXPECT_EQ(heap_.give_back(b, 4096, nullptr), DW_OK);
  ASSERT_EQ(heap_.take(12288, &again, &data, nullptr), DW_OK);
  EXPECT_EQ(again, a);
  for (int i = 0; i < 12288; ++i) ASSERT_EQ(data[i], 0);
  EXPECT_EQ(heap_.give_back(again, 12288, nullptr), DW_OK);
  EXPECT_EQ(heap_.give_back(c, 4096, nullptr), DW_OK);
}

TEST_F(HeapTest, WhatIsNotThereIsNotFound) {
  size_t place = 0;
  char* data = nullptr;
  ASSERT_EQ(heap_.take(4096, &place, &data, nullptr), DW_OK);
  EXPECT_EQ(heap_.find(0, place, 4097), nullptr);
  EXPECT_EQ(heap_.find(0, place + Heap::kMost, 1), nullptr);
  EXPECT_EQ(heap_.find(0, place + 1, SIZE_MAX), nullptr);
}

TEST_F(HeapTest, IsNotGivenBackUnderAnOperation) {
  size_t place = 0;
  char* data = nullptr;
  ASSERT_EQ(heap_.take(4096, &place, &data, nullptr), DW_OK);
  Lease lease;
  lease.out.begin = place + 64;
  lease.out.end = place + 128;
  heap_.add(&lease);
  dw_error error = {};
  EXPECT_GT(heap_.give_back(place, 4096, &error), DW_OK);
  EXPECT_NE(std::string(error.text).find("operation"), std::string::npos);
  lease.out.end = 0;
  EXPECT_EQ(heap_.give_back(place, 4096, &error), DW_OK);
  heap_.drop(&lease);
}

TEST_F(HeapTest, BeyondItIsAnErrorWithTheNumbers) {
  size_t place = 0;
  char* data = nullptr;
  dw_error error = {};
  EXPECT_EQ(heap_.take(SIZE_MAX / 2, &place, &data, &error),
            DW_RESOURCE_EXHAUSTED);
  EXPECT_NE(std::string(error.text).find("KiB"), std::string::npos);
}

// Buffers that are used in turn, with holes between them, are looked for once.
TEST_F(HeapTest, PartsBetweenHolesAreFound) {
  size_t places[6];
  char* data[6];
  for (int i = 0; i < 6; ++i)
    ASSERT_EQ(heap_.take(4096, &places[i], &data[i], nullptr), DW_OK);
  for (int i = 1; i < 6; i += 2)
    ASSERT_EQ(heap_.give_back(places[i], 4096, nullptr), DW_OK);
  for (int turn = 0; turn < 3; ++turn)
    for (int i = 0; i < 6; i += 2) {
      EXPECT_EQ(heap_.find(0, places[i], 4096), data[i]);
      EXPECT_EQ(heap_.find(0, places[i] + 100, 64), data[i] + 100);
      EXPECT_EQ(heap_.find(0, places[i] + 100, 4096), nullptr);
      EXPECT_EQ(heap_.find(0, places[i + 1], 1), nullptr);
    }
}

// In a control group: what is wrong, else nothing.
std::string fill_the_heap() {
  Header header = {};
  header.magic = kSegmentMagic;
  header.size = 1;
  header.stage_bytes = kSmallStage;
  Arena arena;
  dw_error error = {};
  if (arena.create(header, &error) != DW_OK) return error.text;
  arena.settle(0);
  constexpr size_t kEach = 1 << 20;
  std::vector<std::pair<size_t, char*>> taken;
  taken.reserve(64);
  for (size_t place = 0; taken.size() < 64;) {
    char* data = nullptr;
    if (arena.heap().take(kEach, &place, &data, &error) != DW_OK) break;
    taken.emplace_back(place, data);
  }
  const std::string text = error.text;
  if (taken.size() == 64) return "there is no end";
  if (taken.size() < 4) return "too early: " + text;
  if (error.code != DW_RESOURCE_EXHAUSTED ||
      error.reason != DW_REASON_OUT_OF_MEMORY ||
      text.find("1024 KiB of shared memory are needed") == std::string::npos ||
      text.find("of its limit of 32768 KiB") == std::string::npos)
    return text;
  // Memory that is held can be used, and freed memory can be allocated again.
  for (const auto& [place, data] : taken) std::memset(data, 1, kEach);
  if (arena.heap().give_back(taken[0].first, kEach, &error) != DW_OK)
    return error.text;
  size_t place = 0;
  char* data = nullptr;
  if (arena.heap().take(kEach, &place, &data, &error) != DW_OK)
    return error.text;
  return place == taken[0].first && data[kEach - 1] == 0 ? "" : "another place";
}

TEST(HeapMemory, BeyondTheControlGroupIsAnErrorWithBothNumbers) {
  distwrap::testing::expect_within_memory(32 << 20, fill_the_heap);
}

}  // namespace
}  // namespace shm_backend
