#include "base/error.h"
#include "info/backend_rows.h"
#include "info/error_pages.h"
#include "info/facts.h"
#include "info/settings_page.h"

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
  EXPECT_EQ(build.abi, "1.2");
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

TEST(Info, AsksABackendForItsPromises) {
  const auto registry = registry_of(Environment(Environment::Variables{}));
  ASSERT_TRUE(registry.ok());
  const auto loopback = (*registry)->find("loopback");
  ASSERT_TRUE(loopback.ok());
  const auto promises = backend_promises(**loopback);
  ASSERT_TRUE(promises.ok()) << promises.status();
  EXPECT_THAT(promises->rows, Not(IsEmpty()));
  EXPECT_FALSE(promises->moves_rows || promises->adds_rows);
  const auto shm = (*registry)->find("shm");
  ASSERT_TRUE(shm.ok());
  EXPECT_TRUE(backend_promises(**shm)->moves_rows);
  EXPECT_TRUE(backend_promises(**shm)->adds_rows);
  // A backend may say what it has found.
  dw_backend_api tells = (*loopback)->api();
  static const auto open_loopback = tells.open;
  tells.open = [](const dw_host_api* host, const dw_open_info* info,
                  dw_backend** backend, dw_error* error) {
    host->log(host->self, DW_LOG_DEBUG, {"version 7", 9});
    return open_loopback(host, info, backend, error);
  };
  const auto told = plugin::make_backend(&tells, "linked in");
  ASSERT_TRUE(told.ok()) << told.status();
  EXPECT_THAT(backend_promises(**told)->notes,
              testing::ElementsAre("version 7"));
}

TEST(ErrorPages, AreWholeForEveryReason) {
  std::set<std::string> settings, texts;
  for (const base::SettingInfo& row : base::all_settings())
    settings.insert(std::string(row.name));
  for (const ErrorPage& page : error_pages()) {
    EXPECT_THAT(page.advice, Not(IsEmpty())) << page.reason;
    EXPECT_TRUE(texts.insert(page.meaning).second) << page.reason;
    EXPECT_THAT(page.meaning, Not(IsEmpty())) << page.reason;
    EXPECT_THAT(page.causes, Not(IsEmpty())) << page.reason;
    EXPECT_THAT(page.look, Not(IsEmpty())) << page.reason;
    EXPECT_NE(page.code, "?") << page.reason;
    for (const std::string& setting : page.settings)
      EXPECT_EQ(settings.count(setting), 1u) << page.reason << ": " << setting;
    EXPECT_THAT(to_markdown(page),
                AllOf(HasSubstr("# " + page.number + ": " + page.reason + "\n"),
                      HasSubstr("\n## Usual causes\n\n- ")));
    EXPECT_THAT(error_index_markdown(),
                HasSubstr("| [" + page.number + "](errors/" + page.number +
                          ".md) | `" + page.reason + "` |"));
    EXPECT_THAT(error_index_text(), HasSubstr(page.number + " " + page.reason));
  }
  EXPECT_EQ(error_index_json().size(), error_pages().size());
}

TEST(ErrorPages, AreFoundByNumberAndByName) {
  for (const char* const word : {"DW-0062", "dw-62", "62", "kPeerLost",
                                 "PEER_LOST", "DW_REASON_PEER_LOST"}) {
    const ErrorPage* const page = find_error_page(word);
    ASSERT_NE(page, nullptr) << word;
    EXPECT_EQ(page->number, "DW-0062") << word;
    EXPECT_THAT(to_text(*page),
                AllOf(testing::StartsWith("DW-0062 kPeerLost: "),
                      HasSubstr("\ndo\n  look at the output of the rank "),
                      HasSubstr("\n  - DISTWRAP_HEARTBEAT\n")));
  }
  for (const char* const word : {"", "DW-", "DW-9999", "-1", "kPeer", "lost"})
    EXPECT_EQ(find_error_page(word), nullptr) << word;
}

// An example without a reason would belong to no page.
TEST(ErrorPages, AreAboutReasonsThatExist) {
#define DW_REASON_PAGE(enumerator, advice, meaning, causes, look, settings) \
  EXPECT_NE(find_error_page(#enumerator), nullptr) << #enumerator;
#include "base/reason_pages.def"
#define DW_EXAMPLE(enumerator, line) \
  EXPECT_NE(find_error_page(#enumerator), nullptr) << #enumerator;
#include "info/examples.def"
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
