#include "pace.h"

#include <gtest/gtest.h>

namespace shm_backend {
namespace {

// A clock that moves on when it is read.
class Clock {
 public:
  Clock() {
    host_.self = this;
    host_.now_ns = [](void* self) {
      return static_cast<Clock*>(self)->now_ += kTickNs;
    };
  }
  const dw_host_api& host() const { return host_; }
  int64_t now() const { return now_; }

 private:
  static constexpr int64_t kTickNs = 100;
  dw_host_api host_ = {};
  int64_t now_ = 0;
};

TEST(Pace, WhoIsEarlyAgainAndAgainWaitsOnce) {
  Clock clock;
  Pace pace;
  for (int round = 1; round <= 3; ++round) {
    const int64_t before = clock.now();
    for (int i = 1; i < Pace::kOften; ++i) pace.was_early(clock.host());
    EXPECT_EQ(clock.now(), before);
    pace.was_early(clock.host());
    EXPECT_GE(clock.now(), before + Pace::kSlipNs);
    EXPECT_LE(clock.now(), before + 2 * Pace::kSlipNs);
  }
}

TEST(Pace, WhoHasWaitedForLongDoesNot) {
  Clock clock;
  Pace pace;
  for (int i = 0; i < 10 * Pace::kOften; ++i) {
    pace.was_early(clock.host());
    if (i % (Pace::kOften - 1) == 0) pace.waits();
  }
  EXPECT_EQ(clock.now(), 0);
}

}  // namespace
}  // namespace shm_backend
