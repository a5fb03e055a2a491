#include "base/settings.h"

#include "base/error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace distwrap::base {
namespace {

using ::testing::HasSubstr;

TEST(Settings, NamesCarryThePrefix) {
  EXPECT_EQ(setting_name(Setting::kRank), "DISTWRAP_RANK");
  EXPECT_EQ(setting_name(Setting::kLog), "DISTWRAP_LOG");
}

TEST(Settings, UnsetAndEmptyAreNothing) {
  const Environment env(Environment::Variables{{"DISTWRAP_RANK", ""}});
  EXPECT_FALSE(env.get(Setting::kRank).has_value());
  EXPECT_FALSE(env.get("NOT_THERE").has_value());
  EXPECT_EQ(env.get_or_default(Setting::kBackend), "auto");
}

TEST(Settings, Numbers) {
  const Environment env({{"A", "3"}, {"B", "-1"}, {"C", "3x"}});
  EXPECT_EQ(env.get_int("A", 0, 9)->value(), 3);
  EXPECT_FALSE(env.get_int("NOT_THERE", 0, 9)->has_value());
  for (const char* name : {"B", "C"}) {
    const absl::Status status = env.get_int(name, 0, 9).status();
    EXPECT_EQ(error_reason(status), Reason::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr(name));
    EXPECT_THAT(std::string(status.message()), HasSubstr(*env.get(name)));
  }
}

TEST(Settings, Seconds) {
  EXPECT_EQ(
      *Environment(Environment::Variables{}).get_seconds(Setting::kTimeout),
      absl::Seconds(600));
  EXPECT_EQ(*Environment(Environment::Variables{{"DISTWRAP_TIMEOUT", "0.25"}})
                 .get_seconds(Setting::kTimeout),
            absl::Milliseconds(250));
  for (const char* bad : {"0", "-1", "soon", "nan"})
    EXPECT_FALSE(Environment(Environment::Variables{{"DISTWRAP_TIMEOUT", bad}})
                     .get_seconds(Setting::kTimeout)
                     .ok())
        << bad;
}

TEST(Settings, ProcessEnvironmentIsRead) {
  EXPECT_TRUE(Environment::of_process().get("PATH").has_value());
}

}  // namespace
}  // namespace distwrap::base
