#include "trial.h"

#include <gtest/gtest.h>

namespace shm_backend {
namespace {

// How many of the next calls go the second way.
int run(Trial& trial, int calls, int64_t first_ns, int64_t second_ns) {
  int n = 0;
  for (int i = 0; i < calls; ++i) {
    const int way = trial.next();
    trial.took(way, way == 0 ? first_ns : second_ns);
    n += way;
  }
  return n;
}

TEST(Trial, GoesTheFasterWay) {
  Trial trial;
  run(trial, 8, 100, 80);
  EXPECT_EQ(run(trial, 56, 100, 80), 56);
  EXPECT_EQ(run(trial, 640, 100, 80), 630);
}

TEST(Trial, LearnsThatAWayHasBecomeSlower) {
  Trial trial;
  run(trial, 64, 100, 80);
  EXPECT_LT(run(trial, 128, 100, 160), 16);
}

TEST(Trial, LearnsThatTheOtherHasBecomeFaster) {
  Trial trial;
  run(trial, 64, 100, 120);
  EXPECT_GT(run(trial, 128, 100, 50), 110);
}

TEST(Trial, OneThatWasHeldUpSaysLittle) {
  Trial trial;
  run(trial, 64, 100, 80);
  trial.took(1, 1'000'000);
  EXPECT_EQ(trial.faster(), 1);
}

}  // namespace
}  // namespace shm_backend
