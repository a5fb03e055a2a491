#include "distances.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

namespace shm_backend {
namespace {

// A rank among others, of each of which it is said how long its line takes.
class Ranks {
 public:
  explicit Ranks(std::vector<int64_t> ns, int own = 0)
      : own_(own), looked_at_(own), ns_(std::move(ns)), pulses_(ns_.size()) {
    host_.self = this;
    host_.now_ns = [](void* self) { return static_cast<Ranks*>(self)->now(); };
    Distances::Pulses pulses;
    for (const auto& pulse : pulses_) pulses.push_back(&pulse);
    distances.attach(host_, own, pulses, &told);
  }
  void set(int rank, int64_t ns) { ns_.at(static_cast<size_t>(rank)) = ns; }
  // Calls after which all others, or those that are not silent, have read.
  void run(int calls, int silent = -1, bool in_turn = false) {
    for (int i = 0; i < calls; ++i) {
      for (size_t r = 0; r < pulses_.size(); ++r)
        if (static_cast<int>(r) != silent) ++pulses_[r];
      looked_at_ = next(looked_at_);
      in_turn ? distances.look() : distances.look(looked_at_);
    }
  }
  int readings() const { return readings_; }

  Distances distances;
  std::atomic<uint32_t> told = 1;

 private:
  static constexpr int64_t kClockNs = 25;
  // A line is loaded between the first and the second of three readings.
  int64_t now() {
    now_ += kClockNs;
    if (readings_++ % 3 == 1) now_ += ns_.at(static_cast<size_t>(looked_at_));
    return now_;
  }
  int next(int rank) const {
    const int after = (rank + 1) % static_cast<int>(ns_.size());
    return after == own_ ? next(after) : after;
  }

  const int own_;
  int looked_at_;
  dw_host_api host_ = {};
  std::vector<int64_t> ns_;
  std::vector<std::atomic<uint64_t>> pulses_;
  int64_t now_ = 0;
  int readings_ = 0;
};

constexpr int kSoon = 64, kLater = 1024;

TEST(Distances, ARankIsNearUntilItIsKnownToBeFar) {
  Ranks ranks({0, 120});
  EXPECT_EQ(ranks.told, 0u) << "of a group before";
  EXPECT_FALSE(ranks.distances.is_far(1));
  ranks.run(kSoon);
  EXPECT_TRUE(ranks.distances.is_far(1));
  EXPECT_TRUE(ranks.distances.most_are_far());
  EXPECT_EQ(ranks.told, 1u);
}

TEST(Distances, WhatTheClockTakesIsNotTheLines) {
  Ranks ranks({0, Distances::kFarNs - 1});
  ranks.run(kLater);
  EXPECT_FALSE(ranks.distances.most_are_far());
  ranks.set(1, Distances::kFarNs);
  ranks.run(kLater);
  EXPECT_TRUE(ranks.distances.most_are_far());
}

TEST(Distances, ComesBack) {
  Ranks ranks({0, 120});
  ranks.run(kLater);
  ranks.set(1, 30);
  ranks.run(kLater);
  EXPECT_FALSE(ranks.distances.is_far(1));
  EXPECT_EQ(ranks.told, 0u);
}

// The line is still in this cache, so nothing can be concluded.
TEST(Distances, WhoReadsNothingStaysWhatItWas) {
  Ranks ranks({0, 120});
  ranks.run(kLater);
  ranks.set(1, 0);
  ranks.run(kLater, 1);
  EXPECT_TRUE(ranks.distances.is_far(1));
}

TEST(Distances, OfManyEachByItself) {
  Ranks ranks({120, 30, 120, 120, 30}, 3);
  ranks.run(4 * kLater);
  for (const int r : {0, 1, 2, 4})
    EXPECT_EQ(ranks.distances.is_far(r), r == 0 || r == 2) << r;
  EXPECT_FALSE(ranks.distances.most_are_far()) << "half of them";
  ranks.set(1, 120);
  ranks.run(4 * kLater);
  EXPECT_TRUE(ranks.distances.most_are_far());
}

TEST(Distances, ASilentOneDoesNotHideTheOthers) {
  Ranks ranks({0, 120, 120});
  ranks.run(4 * kLater, 1);
  EXPECT_FALSE(ranks.distances.is_far(1));
  EXPECT_TRUE(ranks.distances.is_far(2));
}

// A rank that writes for all checks each reader in turn.
TEST(Distances, InTurn) {
  Ranks ranks({120, 120, 120}, 1);
  ranks.run(kLater, -1, true);
  EXPECT_TRUE(ranks.distances.is_far(0));
  EXPECT_TRUE(ranks.distances.is_far(2));
}

TEST(Distances, TheClockIsReadSeldom) {
  Ranks ranks({0, 30});
  ranks.run(kLater);
  const int before = ranks.readings();
  ranks.run(100 * kLater);
  EXPECT_LT(ranks.readings() - before, 100 * kLater / 6);
}

}  // namespace
}  // namespace shm_backend
