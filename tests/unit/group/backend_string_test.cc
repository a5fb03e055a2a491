#include "group/backend_string.h"

#include "base/error.h"
#include "plugin/linked_in.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace distwrap::group {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class BackendString : public ::testing::Test {
 protected:
  std::vector<BackendChoice> good(absl::string_view text) {
    const auto choices = parse_backends(text, registry_);
    EXPECT_TRUE(choices.ok()) << choices.status();
    return choices.value_or(std::vector<BackendChoice>{});
  }
  void bad(absl::string_view text, Reason reason, const char* says) {
    const absl::Status status = parse_backends(text, registry_).status();
    EXPECT_EQ(error_reason(status), reason) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(says));
  }

  plugin::Registry registry_{{}};
};

TEST_F(BackendString, NamesAndPairsInTheirOrder) {
  EXPECT_THAT(spelled_backends(good("gloo")),
              ElementsAre(DeviceBackend{"cpu", "gloo"}));
  EXPECT_THAT(spelled_backends(good(" nccl ")),
              ElementsAre(DeviceBackend{"cuda", "nccl"}));
  EXPECT_THAT(spelled_backends(good("cuda:ncclx, cpu : gloo")),
              ElementsAre(DeviceBackend{"cuda", "ncclx"},
                          DeviceBackend{"cpu", "gloo"}));
  EXPECT_EQ(good("ncclx")[0].backend, "nccl");
  EXPECT_EQ(good("cuda:rcclx")[0].backend, "rccl");
  EXPECT_EQ(good("hccl")[0].device, "mtia");
  EXPECT_EQ(good("xpu:gloo,mtia:gloo").size(), 2u);
}

TEST_F(BackendString, WhatIsWrongIsSaid) {
  bad("", Reason::kBackendMissing, "backend must be specified");
  bad("  ", Reason::kBackendMissing, "backend must be specified");
  bad("nope", Reason::kBackendUnknown,
      "Unknown backend: 'nope'. Known backends are: auto, gloo, hccl");
  bad("cpu:nope", Reason::kBackendUnknown, "Unknown backend: 'nope'");
  bad("cuda:0:nccl", Reason::kBackendFormat,
      "Invalid backend format: 'cuda:0:nccl', got 2 colons");
  bad("cpu:gloo,", Reason::kBackendFormat, "got 0 colons");
  bad("cpu:gloo,nccl", Reason::kBackendFormat,
      "Invalid backend format: 'nccl', got 0 colons");
  bad(":gloo", Reason::kBackendFormat, "Invalid backend format: ':gloo'");
  bad("cpu:", Reason::kBackendFormat, "Invalid backend format: 'cpu:'");
  bad("gpu:nccl", Reason::kDeviceUnknown, "'gpu'");
  bad("cpu:gloo,cpu:ucx", Reason::kDeviceDuplicate, "Duplicate device type");
  bad("gloo+", Reason::kBackendFormat, "gloo+");
  bad("shm+gloo+ucx", Reason::kBackendFormat, "shm+gloo+ucx");
  bad("shm+nope", Reason::kBackendUnknown, "Unknown backend: 'nope'");
}

TEST_F(BackendString, WhatCannotBeLoadedIsSaid) {
  const auto settle = [&](absl::string_view text) {
    std::vector<BackendChoice> choices = good(text);
    return settle_backends(choices, registry_);
  };
  EXPECT_TRUE(settle("auto").ok());
  EXPECT_EQ(error_reason(settle("nccl")), Reason::kPluginNotFound);
  EXPECT_EQ(error_reason(settle("cuda:gloo")), Reason::kNoCommunicator);
  const absl::Status joined = settle("shm+gloo");
  EXPECT_EQ(error_reason(joined), Reason::kUnsupported);
  EXPECT_THAT(std::string(joined.message()), HasSubstr("shm+gloo"));
}

TEST_F(BackendString, AutoFitsSizeAndHosts) {
  const auto resolved = [&](int size, bool one_host) {
    std::vector<BackendChoice> choices = good("cpu:auto");
    EXPECT_TRUE(settle_backends(choices, registry_).ok());
    resolve_auto(&choices, size, one_host, registry_);
    EXPECT_EQ(choices[0].spelled, "auto");
    return choices[0].backend;
  };
  EXPECT_EQ(resolved(1, true), "loopback");
  EXPECT_EQ(resolved(2, true), "shm");
  EXPECT_EQ(resolved(128, true), "shm");
  EXPECT_EQ(resolved(129, true), "gloo");
  EXPECT_EQ(resolved(2, false), "gloo");
  std::vector<BackendChoice> far = good("cpu:auto");
  EXPECT_TRUE(has_auto(far));
  resolve_auto(&far, 2, false, registry_, "ucx");
  EXPECT_EQ(far[0].backend, "ucx");
  EXPECT_FALSE(has_auto(far));
  std::vector<BackendChoice> device = good("cuda:auto");
  resolve_auto(&device, 2, true, registry_);
  EXPECT_EQ(device[0].backend, "nccl");
}

TEST_F(BackendString, ShmReachesNoOtherHost) {
  EXPECT_TRUE(check_reach(good("shm"), true, true, registry_).ok());
  EXPECT_TRUE(check_reach(good("gloo"), false, true, registry_).ok());
  const absl::Status refused = check_reach(good("shm"), false, true, registry_);
  EXPECT_EQ(error_reason(refused), Reason::kUnsupported);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("gloo or ucx"));
}

// A backend of this library, under a name and flags of the test.
template <uint32_t kFlags>
const dw_backend_api* renamed(const dw_host_info* host) {
  static dw_backend_api api = *plugin::linked_in()[0].query(host);
  api.name = kFlags == 0 ? dw_str{"clear", 5} : dw_str{"safe", 4};
  api.flags |= kFlags;
  return &api;
}

TEST_F(BackendString, DataInTheClearIsRefusedWhereItIsNotAllowed) {
  constexpr plugin::LinkedIn kBoth[] = {
      {"clear", &renamed<0>}, {"safe", &renamed<DW_BACKEND_PROTECTS_DATA>}};
  plugin::Registry registry({}, kBoth);
  const std::vector<BackendChoice> clear = {{"cpu", 1, "clear", "clear"}};
  const std::vector<BackendChoice> safe = {{"cpu", 1, "safe", "safe"}};
  EXPECT_TRUE(check_reach(clear, true, false, registry).ok());
  EXPECT_TRUE(check_reach(clear, false, true, registry).ok());
  EXPECT_TRUE(check_reach(safe, false, false, registry).ok());
  const absl::Status refused = check_reach(clear, false, false, registry);
  EXPECT_EQ(error_reason(refused), Reason::kUnsupported);
  EXPECT_THAT(std::string(refused.message()),
              HasSubstr("unset DISTWRAP_CLEAR_DATA on all ranks"));
}

}  // namespace
}  // namespace distwrap::group
