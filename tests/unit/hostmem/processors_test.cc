#include "hostmem/processors.h"

#include <gtest/gtest.h>

namespace dw_hostmem {
namespace {

Processors of(uint64_t mask, uint64_t at_once) {
  Processors made = {};
  made.set[0] = mask;
  made.at_once = at_once;
  return made;
}

// Ranks that are each bound to a processor of their own share none.
TEST(Processors, AreCountedTogether) {
  Processors all = of(1, 64);
  EXPECT_EQ(all.count(), 1);
  all.add(of(2, 64));
  EXPECT_EQ(all.count(), 2);
  all.add(of(2, 64));
  EXPECT_EQ(all.count(), 2);
}

TEST(Processors, TheControlGroupMayLetFewerRun) {
  Processors all = of(0xff, 64);
  all.add(of(0xff, 3));
  EXPECT_EQ(all.count(), 3);
}

TEST(Processors, OfThisThread) { EXPECT_GE(Processors::usable().count(), 1); }

}  // namespace
}  // namespace dw_hostmem
