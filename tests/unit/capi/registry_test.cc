// The registry, names of backends and ranks, and types of objects, with bad
// input.
#include "unit/capi/session_of_one.h"

#include <gmock/gmock.h>

#include <string>

namespace distwrap::capi {
namespace {

using ::testing::HasSubstr;

using RegistryInC = SessionOfOne;

TEST_F(RegistryInC, NullIsNamed) {
  uint64_t count = 0;
  int32_t rank = 0;
  distwrap_list list = nullptr;
  distwrap_peer peer;
  const auto expect_null = [&](int32_t code, const char* what) {
    EXPECT_EQ(code, DW_INVALID_ARGUMENT) << what;
    EXPECT_THAT(text(), HasSubstr(std::string(what) + " is NULL"));
  };
  expect_null(distwrap_registered_groups(nullptr, &error_), "count");
  expect_null(distwrap_registered_ranks(nullptr, &rank, 1, nullptr, &error_),
              "count");
  expect_null(distwrap_registered_ranks(nullptr, nullptr, 1, &count, &error_),
              "ranks");
  expect_null(distwrap_registered_description(nullptr, nullptr, &error_),
              "list");
  expect_null(distwrap_register_group(nullptr, nullptr, 1, "", &error_),
              "ranks");
  expect_null(distwrap_format_backend(nullptr, 1, &list, &error_), "backends");
  expect_null(distwrap_format_backend(nullptr, 0, nullptr, &error_), "list");
  const distwrap_pair half = {"cpu", nullptr};
  expect_null(distwrap_format_backend(&half, 1, &list, &error_),
              "a device or backend");
  expect_null(distwrap_choose_peer(&rank, nullptr, "src", nullptr, &error_),
              "peer");
  expect_null(distwrap_choose_peer(&rank, nullptr, nullptr, &peer, &error_),
              "argument");
  expect_null(distwrap_save_recording(nullptr, nullptr, &error_), "list");
  expect_null(
      distwrap_register_object_type(
          nullptr, [](void*, const distwrap_bytes*) { return int32_t{DW_OK}; },
          nullptr, &error_),
      "name");
  expect_null(distwrap_register_object_type("x", nullptr, nullptr, &error_),
              "check");
}

TEST_F(RegistryInC, StaleHandlesAreRefused) {
  distwrap_batch batch = nullptr;
  ASSERT_EQ(distwrap_batch_create(&batch, nullptr), DW_OK);
  EXPECT_EQ(distwrap_batch_free(batch), DW_OK);
  EXPECT_EQ(distwrap_batch_on(batch, nullptr, &error_), DW_INVALID_ARGUMENT);
  EXPECT_THAT(text(), HasSubstr("the batch handle is stale"));
  distwrap_group group = nullptr;
  ASSERT_EQ(distwrap_world(&group, nullptr), DW_OK);
  EXPECT_EQ(distwrap_group_free(group), DW_OK);
  EXPECT_EQ(distwrap_unregister_group(group, &error_), DW_INVALID_ARGUMENT);
  EXPECT_THAT(text(), HasSubstr("the group handle is stale"));
  ASSERT_EQ(distwrap_batch_create(&batch, nullptr), DW_OK);
  EXPECT_EQ(distwrap_batch_on(batch, group, &error_), DW_INVALID_ARGUMENT);
  EXPECT_THAT(text(), HasSubstr("the group handle is stale"));
  EXPECT_EQ(distwrap_batch_free(batch), DW_OK);
  const auto session = reinterpret_cast<distwrap_session>(group);
  distwrap_list list = nullptr;
  EXPECT_EQ(distwrap_save_recording(session, &list, &error_),
            DW_INVALID_ARGUMENT);
  EXPECT_THAT(text(), HasSubstr("no session's but a group's"));
}

TEST_F(RegistryInC, TwiceIsRefused) {
  const int32_t rank = 0;
  EXPECT_EQ(distwrap_register_group(nullptr, &rank, 1, "again", &error_),
            DW_FAILED_PRECONDITION);
  EXPECT_EQ(distwrap_error_reason(error_), DW_REASON_GROUP_DUPLICATE);
  EXPECT_THAT(text(), HasSubstr("world"));
}

int32_t no_long_ones(void* user, const distwrap_bytes* bytes) {
  ++*static_cast<int*>(user);
  return bytes->size <= 4 ? DW_OK : DW_INVALID_ARGUMENT;
}

TEST_F(RegistryInC, ExtensionsAreLookedAt) {
  static int looked = 0;
  ASSERT_EQ(
      distwrap_register_object_type("short", no_long_ones, &looked, &error_),
      DW_OK);
  // [tag 40002 of ["short", bytes]], as docs/objects.md has it.
  const auto encoded = [](const std::string& bytes) {
    std::string body("\xd9\x9c\x42\x82\x65short", 10);
    body += static_cast<char>(0x40 + bytes.size());
    body += bytes;
    std::string all("DWOB\x01\x00\x00\x00", 8);
    all += static_cast<char>(body.size());
    all += std::string(7, '\0');
    return all + body;
  };
  const auto exchange = [&](const std::string& bytes) {
    const std::string object = encoded(bytes);
    const distwrap_bytes own = {object.data(), object.size()};
    distwrap_list list = nullptr;
    const int32_t code = distwrap_all_gather_object(&own, DW_OBJECT_ENCODED,
                                                    nullptr, &list, &error_);
    distwrap_list_free(list);
    return code;
  };
  EXPECT_EQ(exchange("ok"), DW_OK) << text();
  EXPECT_NE(exchange("too long"), DW_OK);
  EXPECT_THAT(text(), HasSubstr("refused it with code 3"));
  EXPECT_GE(looked, 2);
  EXPECT_EQ(
      distwrap_register_object_type("short", no_long_ones, nullptr, &error_),
      DW_INVALID_ARGUMENT);
  EXPECT_THAT(text(), HasSubstr("registered already"));
}

}  // namespace
}  // namespace distwrap::capi
