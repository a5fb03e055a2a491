#include "group/hello.h"

#include <gmock/gmock.h>

namespace distwrap::group {
namespace {

using ::testing::ElementsAre;

TEST(HelloTest, HostsAreNumberedInOrderOfTheirFirstRanks) {
  EXPECT_THAT(number_hosts({{"b", "", 1}, {"a", "", 2}, {"b", "", 3}}),
              ElementsAre(0, 1, 0));
}

TEST(HelloTest, AHostThatIsNotKnownHasOneRank) {
  EXPECT_THAT(
      number_hosts({{"", "", 1}, {"a", "", 2}, {"", "", 3}, {"a", "", 4}}),
      ElementsAre(0, 1, 2, 1));
}

TEST(HelloTest, WhatIsNoHelloIsAnEmptyOne) {
  const Hello hello{4, 5, 6, "host", "handover"};
  EXPECT_EQ(decode(encode(hello)).terms, 4u);
  EXPECT_EQ(decode(encode(hello)).handover, "handover");
  EXPECT_EQ(decode(encode(hello) + "x").pid, 0);
  EXPECT_EQ(decode("").pid, 0);
}

}  // namespace
}  // namespace distwrap::group
