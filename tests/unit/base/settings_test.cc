#include "base/settings.h"

#include "base/error.h"
#include "base/log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace distwrap::base {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Environment with(const std::string& name, const std::string& value) {
  return Environment(Environment::Variables{{name, value}});
}

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

TEST(Settings, ZeroIsNeverWhereThatHasAMeaning) {
  const auto patience = [](std::string text) {
    return with("DISTWRAP_STRAGGLER", std::move(text))
        .get_seconds(Setting::kStraggler);
  };
  EXPECT_EQ(*patience(""), absl::Seconds(30));
  EXPECT_EQ(*patience("0.5"), absl::Milliseconds(500));
  EXPECT_EQ(*patience("0"), absl::InfiniteDuration());
  for (const char* bad : {"-1", "later", "nan"})
    EXPECT_FALSE(patience(bad).ok()) << bad;
}

// G9: a flag that is set to "no" must not turn the feature on.
TEST(Settings, AFlagThatSaysNoIsOff) {
  for (const char* no : {"0", "false", "no", "off", "FALSE", "Off"})
    EXPECT_EQ(with("FLAG", no).get_flag("FLAG")->value(), false) << no;
  for (const char* yes : {"1", "true", "yes", "on", "TRUE", "On"})
    EXPECT_EQ(with("FLAG", yes).get_flag("FLAG")->value(), true) << yes;
  EXPECT_FALSE(with("FLAG", "").get_flag("FLAG")->has_value());
  for (const char* junk : {"2", "y", "falsee", " 1", "-", "none"}) {
    const absl::Status status = with("FLAG", junk).get_flag("FLAG").status();
    EXPECT_EQ(error_reason(status), Reason::kInvalidArgument) << junk;
    EXPECT_THAT(std::string(status.message()),
                AllOf(HasSubstr("FLAG"), HasSubstr(junk)));
  }
}

TEST(Settings, EveryDefaultIsOfItsType) {
  EXPECT_GE(all_settings().size(), 14u);
  for (const SettingInfo& setting : all_settings()) {
    EXPECT_FALSE(setting.summary.empty()) << setting.name;
    EXPECT_FALSE(expected_value(setting).empty()) << setting.name;
    if (setting.fallback.empty()) continue;
    EXPECT_TRUE(with(std::string(setting.name), std::string(setting.fallback))
                    .check(setting.setting)
                    .ok())
        << setting.name;
  }
}

TEST(Settings, ChecksValuesByType) {
  struct Case {
    Setting setting;
    const char *good, *bad;
  };
  const Case cases[] = {
      {Setting::kRank, "0", "-1"},
      {Setting::kWorldSize, "4", "four"},
      {Setting::kLauncher, "torchrun", "torch"},
      {Setting::kTimeout, "0.5", "0"},
      {Setting::kPluginPath, "/a:/b:", "/a:b"},
      {Setting::kPluginAllow, "/a", "a"},
      {Setting::kLog, "debug", "Debug"},
      {Setting::kLog, "error", "error warning"},
  };
  for (const Case& c : cases) {
    const std::string name(setting_name(c.setting));
    EXPECT_TRUE(with(name, c.good).check(c.setting).ok()) << name;
    const absl::Status status = with(name, c.bad).check(c.setting);
    EXPECT_EQ(error_reason(status), Reason::kInvalidArgument) << name;
    EXPECT_THAT(std::string(status.message()),
                AllOf(HasSubstr(name), HasSubstr(c.bad)));
  }
  EXPECT_TRUE(Environment(Environment::Variables{}).check(Setting::kRank).ok());
}

TEST(Settings, UnknownNamesComeWithTheNearest) {
  const Environment env({{"DISTWRAP_", "x"},
                         {"DISTWRAP_TIMEOUTS", "5"},
                         {"DISTWRAP_RANK", "0"},
                         {"DISTWRAP_rank", "0"},
                         {"DISTWRAPPER", "no prefix of ours"},
                         {"ZZZ", ""}});
  std::vector<std::string> names, nearest;
  for (const auto& unknown : env.unknown_settings()) {
    names.push_back(unknown.name);
    nearest.push_back(unknown.nearest);
  }
  EXPECT_THAT(names,
              ElementsAre("DISTWRAP_", "DISTWRAP_TIMEOUTS", "DISTWRAP_rank"));
  EXPECT_EQ(nearest[1], "DISTWRAP_TIMEOUT");
}

TEST(Settings, UnknownNamesAreToldOnceAProcess) {
  std::vector<std::string> lines;
  set_log_sink([&](LogLevel level, absl::string_view text) {
    EXPECT_EQ(level, LogLevel::kWarning);
    lines.emplace_back(text);
  });
  warn_of_unknown_settings(with("DISTWRAP_RANK", "0"));
  EXPECT_THAT(lines, ElementsAre());
  for (int i = 0; i < 2; ++i)
    warn_of_unknown_settings(with("DISTWRAP_BACKENDS", "gloo"));
  set_log_sink(nullptr);
  EXPECT_THAT(lines,
              ElementsAre(AllOf(HasSubstr("DISTWRAP_BACKENDS"),
                                HasSubstr("nearest is DISTWRAP_BACKEND"))));
}

TEST(Settings, ProcessEnvironmentIsRead) {
  EXPECT_TRUE(Environment::of_process().get("PATH").has_value());
}

}  // namespace
}  // namespace distwrap::base
