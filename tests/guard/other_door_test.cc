// A process that has preloaded the door of another version.
#include "distwrap/distwrap.h"
#include "distwrap/guard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace distwrap {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(OtherDoor, RefusesASessionThatGuardsWithBothPaths) {
  for (const GuardMode mode :
       {GuardMode::kWarn, GuardMode::kBlock, GuardMode::kRequire}) {
    const auto made =
        Session::create({.rank = 0, .world_size = 1, .guard = mode});
    EXPECT_EQ(error_reason(made.status()), Reason::kDirectCall);
    EXPECT_THAT(
        std::string(made.status().message()),
        AllOf(HasSubstr("libguard_other_door.so"), HasSubstr("0.0.9"),
              HasSubstr("libdistwrap.so"), HasSubstr("another version")));
    EXPECT_EQ(guard_status().mode, GuardMode::kOff);
  }
}

TEST(OtherDoor, OthersStart) {
  const auto made = Session::create({.rank = 0, .world_size = 1});
  ASSERT_TRUE(made.ok()) << made.status();
  { const GuardAllow allow("counts for nothing"); }
  EXPECT_EQ(guard_status().door, "");
  EXPECT_TRUE(made->close().ok());
}

}  // namespace
}  // namespace distwrap
