#include "store/launch_info.h"

#include "distwrap/status.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace distwrap::store {
namespace {

using base::Environment;
using ::testing::HasSubstr;

absl::StatusOr<LaunchInfo> detect(Environment::Variables variables) {
  return detect_launch(Environment(std::move(variables)));
}

void expect_error(Environment::Variables variables, Reason reason,
                  std::vector<std::string> parts) {
  const absl::Status status = detect(std::move(variables)).status();
  EXPECT_EQ(error_reason(status), reason) << status;
  for (const std::string& part : parts)
    EXPECT_THAT(std::string(status.message()), HasSubstr(part));
}

TEST(DetectLaunch, OwnLauncher) {
  const auto info = detect({{"DISTWRAP_RANK", "1"},
                            {"DISTWRAP_WORLD_SIZE", "4"},
                            {"DISTWRAP_LOCAL_RANK", "0"},
                            {"DISTWRAP_LOCAL_WORLD_SIZE", "2"},
                            {"DISTWRAP_STORE", "unix:/x"},
                            {"DISTWRAP_JOB_ID", "j"}});
  ASSERT_TRUE(info.ok()) << info.status();
  EXPECT_EQ(info->rank, 1);
  EXPECT_EQ(info->world_size, 4);
  EXPECT_EQ(info->local_rank, 0);
  EXPECT_EQ(info->local_world_size, 2);
  EXPECT_EQ(info->launcher, "distwrap");
  EXPECT_EQ(info->store_address, "unix:/x");
  EXPECT_EQ(info->job_id, "j");
}

TEST(DetectLaunch, LocalPlaceIsTheWorldsWhenUnset) {
  const auto info =
      detect({{"DISTWRAP_RANK", "0"}, {"DISTWRAP_WORLD_SIZE", "2"}});
  ASSERT_TRUE(info.ok()) << info.status();
  EXPECT_EQ(info->local_rank, 0);
  EXPECT_EQ(info->local_world_size, 2);
  EXPECT_EQ(info->store_address, "");
}

TEST(DetectLaunch, Nothing) {
  expect_error({{"PATH", "/bin"}}, Reason::kLaunchMissing,
               {"DISTWRAP_RANK", "DISTWRAP_WORLD_SIZE", "distwrap run"});
  // Another launcher's variables are not ours.
  expect_error({{"RANK", "0"}, {"WORLD_SIZE", "1"}}, Reason::kLaunchMissing,
               {});
}

TEST(DetectLaunch, HalfSet) {
  expect_error({{"DISTWRAP_RANK", "3"}}, Reason::kLaunchMissing,
               {"DISTWRAP_RANK is 3", "DISTWRAP_WORLD_SIZE is unset"});
  expect_error({{"DISTWRAP_WORLD_SIZE", "4"}, {"DISTWRAP_RANK", ""}},
               Reason::kLaunchMissing,
               {"DISTWRAP_WORLD_SIZE is 4", "DISTWRAP_RANK is unset"});
  expect_error({{"DISTWRAP_RANK", "0"},
                {"DISTWRAP_WORLD_SIZE", "2"},
                {"DISTWRAP_LOCAL_RANK", "0"}},
               Reason::kLaunchMissing, {"DISTWRAP_LOCAL_WORLD_SIZE is unset"});
}

TEST(DetectLaunch, Junk) {
  for (const char* junk : {"x", "1.5", "-1", "0x1", "99999999999999999999"})
    expect_error({{"DISTWRAP_RANK", junk}, {"DISTWRAP_WORLD_SIZE", "2"}},
                 Reason::kInvalidArgument, {"DISTWRAP_RANK", junk});
  for (const char* junk : {"two", "0", "-2", "99999999999"})
    expect_error({{"DISTWRAP_RANK", "0"}, {"DISTWRAP_WORLD_SIZE", junk}},
                 Reason::kInvalidArgument, {"DISTWRAP_WORLD_SIZE", junk});
}

TEST(DetectLaunch, RankOutsideTheWorld) {
  expect_error({{"DISTWRAP_RANK", "2"}, {"DISTWRAP_WORLD_SIZE", "2"}},
               Reason::kInvalidArgument,
               {"DISTWRAP_RANK", "DISTWRAP_WORLD_SIZE", "'2'"});
  expect_error({{"DISTWRAP_RANK", "0"},
                {"DISTWRAP_WORLD_SIZE", "2"},
                {"DISTWRAP_LOCAL_RANK", "5"},
                {"DISTWRAP_LOCAL_WORLD_SIZE", "2"}},
               Reason::kInvalidArgument,
               {"DISTWRAP_LOCAL_RANK", "DISTWRAP_LOCAL_WORLD_SIZE", "'5'"});
  expect_error({{"DISTWRAP_RANK", "0"},
                {"DISTWRAP_WORLD_SIZE", "2"},
                {"DISTWRAP_LOCAL_RANK", "0"},
                {"DISTWRAP_LOCAL_WORLD_SIZE", "3"}},
               Reason::kInvalidArgument, {"DISTWRAP_LOCAL_WORLD_SIZE", "'3'"});
}

}  // namespace
}  // namespace distwrap::store
