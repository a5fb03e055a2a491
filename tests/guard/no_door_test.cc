// A process without the door.
#include "distwrap/distwrap.h"
#include "distwrap/guard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdlib.h>

namespace distwrap {
namespace {

using ::testing::HasSubstr;

TEST(NoDoor, ASessionThatRequiresItCannotStart) {
  const auto made = Session::create(
      {.rank = 0, .world_size = 1, .guard = GuardMode::kRequire});
  EXPECT_EQ(error_reason(made.status()), Reason::kDirectCall);
  EXPECT_THAT(std::string(made.status().message()),
              HasSubstr("libdistwrap_guard.so"));
  EXPECT_EQ(guard_status().mode, GuardMode::kOff);
}

TEST(NoDoor, OthersStart) {
  for (const GuardMode mode :
       {GuardMode::kOff, GuardMode::kWarn, GuardMode::kBlock}) {
    const auto made =
        Session::create({.rank = 0, .world_size = 1, .guard = mode});
    ASSERT_TRUE(made.ok()) << made.status();
    EXPECT_EQ(guard_status().mode, mode);
    EXPECT_EQ(guard_status().door, "");
    EXPECT_TRUE(made->close().ok());
  }
}

TEST(NoDoor, TheSettingIsRead) {
  setenv("DISTWRAP_GUARD", "maybe", 1);
  const auto wrong = Session::create({.rank = 0, .world_size = 1});
  EXPECT_THAT(std::string(wrong.status().message()),
              HasSubstr("DISTWRAP_GUARD"));
  setenv("DISTWRAP_GUARD", "require", 1);
  EXPECT_EQ(
      error_reason(Session::create({.rank = 0, .world_size = 1}).status()),
      Reason::kDirectCall);
  // The program's own word counts more.
  const auto made =
      Session::create({.rank = 0, .world_size = 1, .guard = GuardMode::kOff});
  EXPECT_TRUE(made.ok()) << made.status();
  unsetenv("DISTWRAP_GUARD");
}

}  // namespace
}  // namespace distwrap
