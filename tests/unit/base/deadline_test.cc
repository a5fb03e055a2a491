#include "distwrap/deadline.h"

#include <gtest/gtest.h>

namespace distwrap {
namespace {

TEST(Deadline, DefaultIsNever) {
  const Deadline never;
  EXPECT_TRUE(never.is_never());
  EXPECT_FALSE(never.passed());
  EXPECT_EQ(never.remaining(), absl::InfiniteDuration());
  EXPECT_EQ(never.remaining_ms(), -1);
}

TEST(Deadline, PastAndFuture) {
  EXPECT_TRUE(Deadline::after(absl::ZeroDuration()).passed());
  const Deadline past = Deadline::after(absl::Seconds(-1));
  EXPECT_TRUE(past.passed());
  EXPECT_EQ(past.remaining(), absl::ZeroDuration());
  EXPECT_EQ(past.remaining_ms(), 0);
  const Deadline later = Deadline::after(absl::Hours(1));
  EXPECT_FALSE(later.passed());
  EXPECT_GT(later.remaining(), absl::Minutes(59));
  EXPECT_GT(later.remaining_ms(), 59 * 60 * 1000);
}

TEST(Deadline, ExtremesSaturate) {
  EXPECT_TRUE(Deadline::after(absl::InfiniteDuration()).is_never());
  EXPECT_TRUE(Deadline::after(absl::Hours(24 * 365 * 1000)).is_never());
  EXPECT_TRUE(Deadline::after(-absl::InfiniteDuration()).passed());
  EXPECT_EQ(Deadline::after(absl::Hours(24 * 365)).remaining_ms(),
            std::numeric_limits<int>::max());
}

TEST(Deadline, EarlierOfTwo) {
  const Deadline a = Deadline::at_ns(5);
  EXPECT_EQ(Deadline::earlier(a, Deadline::never()).ns(), 5);
  EXPECT_EQ(Deadline::earlier(Deadline::at_ns(4), a).ns(), 4);
}

}  // namespace
}  // namespace distwrap
