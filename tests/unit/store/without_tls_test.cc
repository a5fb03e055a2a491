// A library that was built without OpenSSL says so wherever a job on several
// hosts, or a list of plugins' hashes, is asked for.
#include "distwrap/status.h"
#include "plugin/allow_list.h"
#include "store/job_key.h"
#include "store/rendezvous.h"
#include "store/tls_channel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

namespace distwrap::store {
namespace {

void expect_refused(const absl::Status& status) {
  EXPECT_EQ(error_reason(status), Reason::kUnsupported) << status;
  EXPECT_THAT(std::string(status.message()),
              ::testing::HasSubstr("built without OpenSSL"));
}

TEST(WithoutTls, AKeyIsRefusedAndNoneIsMade) {
  for (const char* const text : {"none", "file:/nowhere"})
    expect_refused(JobKey::read(text).status());
  const std::string path = ::testing::TempDir() + "/without-tls.key";
  expect_refused(JobKey::make_file(path));
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(WithoutTls, AnotherHostIsNotReached) {
  InitRequest request;
  request.init_method = "tcp://192.0.2.1:29500";
  request.rank = 1;
  request.world_size = 2;
  expect_refused(find_rendezvous(
                     request, base::Environment(base::Environment::Variables{}))
                     .status());
  expect_refused(TlsChannel::make(TlsChannel::Role::kClient, {}).status());
}

TEST(WithoutTls, AJobOnOneHostMeets) {
  InitRequest request;
  request.init_method = "tcp://127.0.0.1:29500";
  request.rank = 1;
  request.world_size = 2;
  const absl::StatusOr<Rendezvous> place = find_rendezvous(
      request, base::Environment(base::Environment::Variables{}));
  ASSERT_TRUE(place.ok()) << place.status();
  EXPECT_THAT(place->address, ::testing::StartsWith("unix:"));
}

TEST(WithoutTls, APluginCannotBeComparedWithAList) {
  expect_refused(plugin::sha256_of_file("/proc/self/exe").status());
}

}  // namespace
}  // namespace distwrap::store
