#include "bench/rank.h"

#include <gtest/gtest.h>

#include <sched.h>

namespace distwrap::bench {
namespace {

TEST(Pin, BeginsAgainBehindTheLastCore) {
  cpu_set_t before;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  const int cores = CPU_COUNT(&before);
  for (const int rank : {0, cores - 1, cores, 2 * cores}) {
    EXPECT_TRUE(pin(rank));
    cpu_set_t now;
    ASSERT_EQ(sched_getaffinity(0, sizeof now, &now), 0);
    ASSERT_EQ(CPU_COUNT(&now), 1) << rank;
    int left = rank % cores;
    size_t core = 0;
    while (!CPU_ISSET(core, &before) || left-- > 0) ++core;
    EXPECT_TRUE(CPU_ISSET(core, &now)) << rank;
    ASSERT_EQ(sched_setaffinity(0, sizeof before, &before), 0);
  }
}

}  // namespace
}  // namespace distwrap::bench
