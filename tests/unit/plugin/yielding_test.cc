// When waiting threads yield and when they sleep.
#include "sdk/yielding.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace distwrap::plugin {
namespace {

using dw_sdk::Yielding;

// The number of refusals until the next attempt.
uint32_t naps(Yielding& yielding) {
  uint32_t n = 0;
  while (!yielding.pays()) ++n;
  return n;
}

TEST(YieldingTest, PaysAsLongAsItIsShort) {
  Yielding yielding;
  for (int i = 0; i < 100; ++i) {
    EXPECT_TRUE(yielding.pays());
    yielding.took(Yielding::kSliceNs - 1);
  }
}

TEST(YieldingTest, IsTriedAgainTheLaterTheOftenerItWasLong) {
  Yielding yielding;
  for (uint32_t expected = Yielding::kFewest; expected < Yielding::kMost;
       expected *= 2) {
    yielding.took(Yielding::kSliceNs);
    EXPECT_EQ(naps(yielding), expected);
  }
  for (int i = 0; i < 3; ++i) {
    yielding.took(INT64_MAX);
    EXPECT_EQ(naps(yielding), Yielding::kMost);
  }
  // No other thread wants the processor any more.
  yielding.took(500);
  EXPECT_EQ(naps(yielding), 0u);
  yielding.took(Yielding::kSliceNs);
  EXPECT_EQ(naps(yielding), Yielding::kFewest);
}

}  // namespace
}  // namespace distwrap::plugin
