#include "base/error.h"
#include "info/backend_rows.h"
#include "info/facts.h"
#include "info/pages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace distwrap::cli {
namespace {

using base::Environment;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

const SettingFacts& setting(const std::vector<SettingFacts>& all,
                            const std::string& name) {
  return *std::find_if(all.begin(), all.end(), [&](const SettingFacts& facts) {
    return facts.name == name;
  });
}

TEST(Info, TellsTheBuild) {
  const BuildFacts build = build_facts();
  EXPECT_EQ(build.abi, "1.0");
  EXPECT_EQ(build.version, base::library_version());
  EXPECT_FALSE(build.compiler.empty());
  EXPECT_THAT(build.prefix, testing::StartsWith("/"));
}

TEST(Info, TellsSettingsWithTheirSource) {
  const auto all = setting_facts(Environment(Environment::Variables{
      {"DISTWRAP_TIMEOUT", "5"}, {"DISTWRAP_LOG", "loud"}, {"PATH", "/"}}));
  EXPECT_EQ(all.size(), base::all_settings().size());
  EXPECT_EQ(setting(all, "DISTWRAP_TIMEOUT").value, "5");
  EXPECT_EQ(setting(all, "DISTWRAP_TIMEOUT").source, "environment");
  EXPECT_EQ(setting(all, "DISTWRAP_INIT_TIMEOUT").value, "600");
  EXPECT_EQ(setting(all, "DISTWRAP_INIT_TIMEOUT").source, "default");
  EXPECT_THAT(setting(all, "DISTWRAP_LOG").error,
              AllOf(HasSubstr("DISTWRAP_LOG"), HasSubstr("'loud'")));
}

TEST(Info, TellsTheLauncherAndThoseIgnored) {
  const LaunchFacts none =
      launch_facts(Environment(Environment::Variables{{"PATH", "/"}}));
  EXPECT_EQ(none.launcher, "");
  EXPECT_FALSE(none.is_wrong);

  const LaunchFacts torchrun =
      launch_facts(Environment(Environment::Variables{{"RANK", "1"},
                                                      {"WORLD_SIZE", "4"},
                                                      {"LOCAL_RANK", "1"},
                                                      {"LOCAL_WORLD_SIZE", "4"},
                                                      {"SLURM_PROCID", "0"},
                                                      {"SLURM_NTASKS", "2"}}));
  EXPECT_EQ(torchrun.launcher, "torchrun");
  ASSERT_EQ(torchrun.ignored.size(), 1u);
  EXPECT_THAT(torchrun.ignored[0].text, HasSubstr("Slurm: rank 0 of 2"));
  const bool has_rank =
      std::any_of(torchrun.values.begin(), torchrun.values.end(),
                  [](const LaunchFacts::Value& value) {
                    return value.value == "1" && value.origin == "RANK";
                  });
  EXPECT_TRUE(has_rank);
}

TEST(Info, HalfSetAndJunkVariablesAreWrong) {
  for (const auto& variables :
       {Environment::Variables{{"RANK", "0"}},
        Environment::Variables{{"DISTWRAP_WORLD_SIZE", "2"}},
        Environment::Variables{{"RANK", "x"}, {"WORLD_SIZE", "2"}},
        Environment::Variables{{"RANK", "2"}, {"WORLD_SIZE", "2"}}}) {
    const LaunchFacts facts = launch_facts(Environment(variables));
    EXPECT_TRUE(facts.is_wrong) << variables.begin()->first;
    EXPECT_FALSE(facts.error.empty());
    Facts all;
    all.launch = facts;
    EXPECT_THAT(to_text(all), HasSubstr(facts.error));
  }
}

TEST(Info, ListsBackendsWithWhyTheyAreRefused) {
  auto registry = registry_of(Environment(Environment::Variables{}));
  ASSERT_TRUE(registry.ok());
  std::set<std::string> names;
  for (const BackendFacts& backend : backend_facts(**registry)) {
    EXPECT_EQ(backend.refusal, "") << backend.origin;
    names.insert(backend.name);
  }
  EXPECT_EQ(names.count("loopback"), 1u);

  registry = registry_of(Environment(
      Environment::Variables{{"DISTWRAP_PLUGIN_ALLOW", "/nowhere"}}));
  EXPECT_FALSE(registry.ok());

  Facts facts;
  facts.backends = {{"x", "/x.so", "", {}, "writable by others"}};
  EXPECT_THAT(to_text(facts), HasSubstr("writable by others"));
}

TEST(Info, AsksABackendForItsRows) {
  const auto registry = registry_of(Environment(Environment::Variables{}));
  ASSERT_TRUE(registry.ok());
  const auto loopback = (*registry)->find("loopback");
  ASSERT_TRUE(loopback.ok());
  const auto rows = backend_rows(**loopback);
  ASSERT_TRUE(rows.ok()) << rows.status();
  EXPECT_THAT(*rows, Not(IsEmpty()));
}

TEST(Pages, EveryReasonSaysWhatToDo) {
  std::set<std::string> advice;
  for (const ReasonText& reason : reason_texts()) {
    EXPECT_FALSE(reason.advice.empty())
        << reason.name << " needs a row in info/advice.def";
    EXPECT_TRUE(advice.insert(reason.advice).second) << reason.advice;
    EXPECT_NE(reason.code, "?") << reason.name;
    EXPECT_FALSE(reason.meaning.empty()) << reason.name;
  }
  EXPECT_THAT(reasons_markdown(),
              HasSubstr("| `kPeerLost` | `kUnavailable` |"));
  EXPECT_THAT(reasons_text(), HasSubstr("kPeerLost (kUnavailable)\n"));
}

TEST(Pages, AdviceIsAboutReasonsThatExist) {
  std::set<std::string> reasons;
  for (const ReasonText& reason : reason_texts()) reasons.insert(reason.name);
#define DW_ADVICE(enumerator, advice) \
  EXPECT_EQ(reasons.count(#enumerator), 1u) << #enumerator;
#include "info/advice.def"
}

TEST(Pages, EverySettingIsThere) {
  for (const base::SettingInfo& row : base::all_settings()) {
    EXPECT_THAT(settings_markdown(), HasSubstr(std::string(row.name)));
    EXPECT_THAT(settings_text(), HasSubstr(std::string(row.summary)));
  }
  EXPECT_EQ(settings_json().size(), base::all_settings().size());
}

}  // namespace
}  // namespace distwrap::cli
