// The sources of a session's values: options, then the environment, then
// defaults.
#include "algo/objects/limit.h"
#include "base/error.h"
#include "base/log.h"
#include "group/session_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace distwrap::group {
namespace {

using ::testing::HasSubstr;
using Variables = base::Environment::Variables;

absl::StatusOr<SessionPlan> plan(const InitOptions& options,
                                 const Variables& variables = {}) {
  return plan_session(options, base::Environment(variables));
}

Variables launched() {
  return {{"DISTWRAP_RANK", "1"},
          {"DISTWRAP_WORLD_SIZE", "4"},
          {"DISTWRAP_STORE", "unix:/run/x/store"}};
}

TEST(SessionPlan, TheLauncherSaysWho) {
  const auto p = plan({}, launched());
  ASSERT_TRUE(p.ok()) << p.status();
  EXPECT_EQ(p->rank, 1);
  EXPECT_EQ(p->world_size, 4);
  EXPECT_EQ(p->place.address, "unix:/run/x/store");
  EXPECT_EQ(p->store, nullptr) << "to be connected";
  EXPECT_EQ(p->backend, "auto");
  EXPECT_EQ(p->timeout, absl::Seconds(600));
}

TEST(SessionPlan, ObjectsHaveALimit) {
  const uint64_t before = objects::max_bytes();
  Variables variables = launched();
  variables["DISTWRAP_OBJECT_MAX_BYTES"] = "5000";
  EXPECT_TRUE(plan({}, variables).ok());
  EXPECT_EQ(objects::max_bytes(), 5000u);
  for (const char* const bad : {"0", "1023", "-1", "9999999999", "much"}) {
    variables["DISTWRAP_OBJECT_MAX_BYTES"] = bad;
    const absl::Status status = plan({}, variables).status();
    EXPECT_EQ(error_reason(status), Reason::kInvalidArgument) << bad;
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("DISTWRAP_OBJECT_MAX_BYTES"));
  }
  EXPECT_EQ(objects::max_bytes(), 5000u);
  objects::set_max_bytes(before);
}

TEST(SessionPlan, OptionsWin) {
  Variables variables = launched();
  variables["DISTWRAP_BACKEND"] = "loopback";
  variables["DISTWRAP_TIMEOUT"] = "5";
  const auto store = Store::in_memory();
  const auto p = plan({.backend = "gloo",
                       .rank = 0,
                       .world_size = 2,
                       .store = store,
                       .timeout = absl::Seconds(1)},
                      variables);
  ASSERT_TRUE(p.ok()) << p.status();
  EXPECT_EQ(p->rank, 0);
  EXPECT_EQ(p->world_size, 2);
  EXPECT_EQ(p->store, store);
  EXPECT_EQ(p->backend, "gloo");
  EXPECT_EQ(p->timeout, absl::Seconds(1));
  EXPECT_EQ(plan({}, variables)->backend, "loopback");
  EXPECT_EQ(plan({}, variables)->timeout, absl::Seconds(5));
}

TEST(SessionPlan, DropInIsGivenOrSet) {
  Variables variables = launched();
  EXPECT_FALSE(plan({}, variables)->drop_in);
  variables["DISTWRAP_DROP_IN"] = "on";
  EXPECT_TRUE(plan({.backend = "gloo"}, variables)->drop_in);
  EXPECT_FALSE(plan({.drop_in = false}, variables)->drop_in);
  variables["DISTWRAP_DROP_IN"] = "0";
  EXPECT_FALSE(plan({}, variables)->drop_in);
  EXPECT_TRUE(plan({.backend = "gloo", .drop_in = true}, variables)->drop_in);
}

TEST(SessionPlan, ALoneRankNeedsNothing) {
  const auto p = plan({.rank = 0, .world_size = 1});
  ASSERT_TRUE(p.ok()) << p.status();
  EXPECT_EQ(p->backend, "auto");
  EXPECT_NE(p->store, nullptr);
}

// Ranks with explicit numbers do not meet in the store of a surrounding job.
TEST(SessionPlan, ExplicitRanksBringTheirStore) {
  const auto p = plan({.rank = 0, .world_size = 2}, launched());
  EXPECT_EQ(error_reason(p.status()), Reason::kLaunchMissing);
  EXPECT_THAT(std::string(p.status().message()),
              HasSubstr("InitOptions::store"));
}

TEST(SessionPlan, NothingAtAllTellsHowToStart) {
  const auto p = plan({});
  EXPECT_EQ(error_reason(p.status()), Reason::kLaunchMissing);
  EXPECT_THAT(std::string(p.status().message()), HasSubstr("distwrap run"));
}

TEST(SessionPlan, JunkIsNamed) {
  const auto text = [](const char* name, const char* value) {
    Variables variables = launched();
    variables[name] = value;
    const auto p = plan({}, variables);
    EXPECT_EQ(error_reason(p.status()), Reason::kInvalidArgument) << name;
    return std::string(p.status().message());
  };
  EXPECT_THAT(text("DISTWRAP_TIMEOUT", "soon"),
              HasSubstr("DISTWRAP_TIMEOUT is not usable"));
  EXPECT_THAT(text("DISTWRAP_INIT_TIMEOUT", "-1"),
              HasSubstr("DISTWRAP_INIT_TIMEOUT is not usable"));
  EXPECT_THAT(text("DISTWRAP_LOG", "loud"), HasSubstr("'loud'"));
  EXPECT_THAT(text("DISTWRAP_RANK", "9"), HasSubstr("DISTWRAP_RANK"));
  EXPECT_THAT(text("DISTWRAP_DROP_IN", "perhaps"), HasSubstr("'perhaps'"));
}

TEST(SessionPlan, AHeartbeatSpansSeveralLooks) {
  Variables variables = launched();
  EXPECT_EQ(plan({}, variables)->heartbeat, absl::Seconds(5));
  variables["DISTWRAP_HEARTBEAT"] = "0.2";
  EXPECT_EQ(plan({}, variables)->heartbeat, absl::Milliseconds(200));
  for (const char* const bad : {"0.1", "0", "-1", "soon"}) {
    variables["DISTWRAP_HEARTBEAT"] = bad;
    const absl::Status status = plan({}, variables).status();
    EXPECT_EQ(error_reason(status), Reason::kInvalidArgument) << bad;
    EXPECT_THAT(std::string(status.message()), HasSubstr("DISTWRAP_HEARTBEAT"));
  }
}

TEST(SessionPlan, RanksOfANodeArePositive) {
  EXPECT_EQ(plan({}, launched())->ranks_per_node, 0);
  EXPECT_EQ(plan({.ranks_per_node = 2}, launched())->ranks_per_node, 2);
  EXPECT_EQ(error_reason(plan({.ranks_per_node = 0}, launched()).status()),
            Reason::kInvalidArgument);
}

TEST(SessionPlan, TheLogLevelIsSet) {
  const base::LogLevel before = base::log_level();
  Variables variables = launched();
  variables["DISTWRAP_LOG"] = "debug";
  EXPECT_TRUE(plan({}, variables).ok());
  EXPECT_EQ(base::log_level(), base::LogLevel::kDebug);
  base::set_log_level(before);
}

TEST(SessionPlan, AnAllowListThatCannotBeReadIsAnError) {
  Variables variables = launched();
  variables["DISTWRAP_PLUGIN_ALLOW"] = "/no/such/list";
  const auto p = plan({}, variables);
  EXPECT_EQ(error_reason(p.status()), Reason::kInvalidArgument);
  EXPECT_THAT(std::string(p.status().message()), HasSubstr("/no/such/list"));
}

TEST(SessionPlan, PluginFoldersComeFromThePath) {
  Variables variables = launched();
  variables["DISTWRAP_PLUGIN_PATH"] = "/opt/a:/opt/b";
  const auto p = plan({}, variables);
  ASSERT_TRUE(p.ok()) << p.status();
  EXPECT_THAT(p->plugin_folders, ::testing::IsSupersetOf({"/opt/a", "/opt/b"}));
}

}  // namespace
}  // namespace distwrap::group
