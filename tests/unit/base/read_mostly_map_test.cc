#include "base/read_mostly_map.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace distwrap::base {
namespace {

// A value that tells how many of its kind exist.
class Counted {
 public:
  Counted(std::atomic<int>& alive, int number)
      : alive_(&alive), number_(number) {
    ++*alive_;
  }
  Counted(const Counted& other) : alive_(other.alive_), number_(other.number_) {
    ++*alive_;
  }
  ~Counted() { --*alive_; }
  int number() const { return number_; }

 private:
  std::atomic<int>* alive_;
  int number_;
};

TEST(ReadMostlyMap, FindsWhatWasAdded) {
  ReadMostlyMap<std::string, int, 200> map;
  EXPECT_FALSE(map.find("a").has_value());
  EXPECT_EQ(map.add("a", 1), 1);
  EXPECT_EQ(map.add("a", 2), 1) << "the first one stays";
  EXPECT_EQ(map.find("a"), 1);
  for (int i = 0; i < 150; ++i) map.add(std::to_string(i), i);
  for (int i = 0; i < 150; ++i) EXPECT_EQ(map.find(std::to_string(i)), i);
  EXPECT_EQ(map.find("a"), 1);
}

TEST(ReadMostlyMap, ForgetsAllWhenItIsFull) {
  std::atomic<int> alive{0};
  {
    ReadMostlyMap<int, Counted, 8> map;
    for (int i = 0; i < 8; ++i) map.add(i, Counted(alive, i));
    EXPECT_TRUE(map.find(0).has_value());
    EXPECT_EQ(alive, 8);
    map.add(8, Counted(alive, 8));
    EXPECT_FALSE(map.find(0).has_value());
    EXPECT_EQ(map.find(8)->number(), 8);
    EXPECT_EQ(alive, 1) << "what was forgotten is destroyed";
  }
  EXPECT_EQ(alive, 0);
}

// The values that readers hold, or look at, while others are added and
// forgotten.
TEST(ReadMostlyMap, ReadersAndWritersAtATime) {
  std::atomic<int> alive{0};
  {
    ReadMostlyMap<int, std::shared_ptr<Counted>, 8> map;
    std::atomic<bool> over{false};
    std::atomic<int> wrong{0};
    std::vector<std::thread> readers;
    for (int r = 0; r < 2; ++r)
      readers.emplace_back([&] {
        while (!over)
          for (int i = 0; i < 20; ++i) {
            const auto found = map.find(i);
            if (found.has_value() && (*found)->number() != i) ++wrong;
          }
      });
    std::vector<std::thread> writers;
    for (int w = 0; w < 2; ++w)
      writers.emplace_back([&] {
        for (int round = 0; round < 300; ++round)
          for (int i = 0; i < 20; ++i)
            if (map.add(i, std::make_shared<Counted>(alive, i))->number() != i)
              ++wrong;
      });
    for (std::thread& writer : writers) writer.join();
    over = true;
    for (std::thread& reader : readers) reader.join();
    EXPECT_EQ(wrong, 0);
    // With no reader left, the next ones destroy what was forgotten.
    for (int i = 0; i < 9; ++i) map.add(100 + i, nullptr);
    EXPECT_EQ(alive, 0);
  }
  EXPECT_EQ(alive, 0);
}

}  // namespace
}  // namespace distwrap::base
