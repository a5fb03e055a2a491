#include "choice.h"

#include <gtest/gtest.h>

#include <vector>

namespace shm_backend {
namespace {

// The cost of an algorithm for each rank.
using Costs = std::vector<int64_t>;

// Ranks that make calls, each with its own choice.
class Ranks {
 public:
  explicit Ranks(size_t n) : choices_(n) {}

  // How many of the next calls go the second way; all ranks the same.
  int run(int calls, const Costs& first, const Costs& second,
          bool together = true) {
    int n = 0;
    for (int i = 0; i < calls; ++i) {
      if (choices_[0].is_due()) agree(together);
      const int way = choices_[0].way();
      n += way;
      for (size_t r = 0; r < choices_.size(); ++r) {
        Choice& choice = choices_[r];
        EXPECT_EQ(choice.way(), way) << "rank " << r << ", call " << i;
        EXPECT_FALSE(choice.is_due());
        if (choice.is_trying()) {
          choice.took(way == 0 ? first[r] : second[r]);
          ++tries_;
        } else {
          choice.passed();
        }
      }
    }
    return n;
  }
  int tries() const { return tries_; }

 private:
  void agree(bool together) {
    std::vector<Choice::Times> times;
    for (const Choice& choice : choices_) times.push_back(choice.times());
    for (Choice& choice : choices_)
      choice.choose(times.data(), static_cast<int>(times.size()), together);
  }

  std::vector<Choice> choices_;
  int tries_ = 0;
};

constexpr int kBurst = 26;

TEST(Choice, TriesBothAndGoesTheFasterWay) {
  Ranks ranks(1);
  EXPECT_EQ(ranks.run(kBurst, {100}, {80}), kBurst / 2);
  EXPECT_EQ(ranks.run(64, {100}, {80}), 64);
  Ranks others(1);
  EXPECT_EQ(others.run(kBurst, {80}, {100}), kBurst / 2);
  EXPECT_EQ(others.run(64, {80}, {100}), 0);
}

TEST(Choice, MeasuresFewCalls) {
  Ranks ranks(1);
  ranks.run(100'000, {100}, {80});
  EXPECT_LT(ranks.tries(), 100'000 / 100);
}

TEST(Choice, LearnsThatTheOtherHasBecomeFaster) {
  Ranks ranks(2);
  ranks.run(1000, {100, 100}, {80, 80});
  EXPECT_LT(ranks.run(10'000, {100, 100}, {160, 160}), 5000);
  EXPECT_LT(ranks.run(1000, {100, 100}, {160, 160}), 50) << "but for tries";
}

TEST(Choice, StaysForALittle) {
  Ranks ranks(1);
  ranks.run(1000, {100}, {98});
  EXPECT_GT(ranks.run(10'000, {95}, {98}), 9900);
}

// The second rank comes late: what the first one waits says nothing.
TEST(Choice, TheLastToComeKnowsWhatACallTakes) {
  Ranks ranks(2);
  ranks.run(kBurst, {1000, 100}, {1050, 80});
  EXPECT_EQ(ranks.run(64, {1000, 100}, {1050, 80}), 64);
}

// A root that has only to show its data is done soon.
TEST(Choice, WhatTakesOneRankLongTakesLong) {
  Ranks ranks(2);
  ranks.run(kBurst, {10, 100}, {80, 80}, false);
  EXPECT_EQ(ranks.run(64, {10, 100}, {80, 80}, false), 64);
}

TEST(Choice, CallsBeforeAWayIsAtItsPaceDoNotCount) {
  Choice choice(20);  // two calls are a try
  for (int i = 0; !choice.is_due(); ++i) {
    ASSERT_LT(i, 60);
    const bool settled = i % 30 >= 20;
    choice.took(choice.way() == 1 ? 100 : settled ? 80 : 1000);
  }
  choice.choose(&choice.times(), 1, true);
  EXPECT_EQ(choice.way(), 0);
}

// A rank that is held up for a while is so in several short calls.
TEST(Choice, ShortCallsAreTriedTogether) {
  Choice choice(160);  // 20 calls are a try
  for (int i = 0; !choice.is_due(); ++i) {
    const bool held_up = i % 260 >= 200 && i % 260 < 220;
    choice.took(held_up ? 1'000'000'000 : choice.way() == 1 ? 80 : 100);
  }
  choice.choose(&choice.times(), 1, true);
  EXPECT_EQ(choice.way(), 1);
}

TEST(Choice, OneCallThatWasHeldUpSaysNothing) {
  Choice choice;
  for (int i = 0; i < kBurst; ++i)
    choice.took(i == 10 || i == 25 ? 1'000'000 : choice.way() == 1 ? 80 : 100);
  ASSERT_TRUE(choice.is_due());
  choice.choose(&choice.times(), 1, true);
  EXPECT_EQ(choice.way(), 1);
}

}  // namespace
}  // namespace shm_backend
