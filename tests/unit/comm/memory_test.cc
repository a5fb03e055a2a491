// Memory of a backend: what is asked of it, and what its answers mean.
#include "comm/memory.h"

#include "base/error.h"
#include "unit/comm/fake_backend.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <memory>

namespace distwrap::comm {
namespace {

using ::testing::HasSubstr;

TEST(AllocationTest, OfTheCallersMemoryIsToldToTheBackend) {
  FakeBackend fake;
  char pool[100];
  int registered = 0, released = 0;
  fake.mem_register = [&](void* address, uint64_t bytes) {
    EXPECT_EQ(address, pool);
    EXPECT_EQ(bytes, sizeof pool);
    ++registered;
    return DW_OK;
  };
  bool in_use = true;
  fake.mem_release = [&](dw_error* error) -> int32_t {
    if (!in_use) return ++released, DW_OK;
    error->reason = DW_REASON_INVALID_ARGUMENT;
    std::strcpy(error->text, "an operation uses it");
    return DW_INVALID_ARGUMENT;
  };
  const auto backend = fake.open();
  for (const bool by_hand : {true, false}) {
    auto made = Allocation::of_callers(backend, pool, sizeof pool);
    ASSERT_TRUE(made.ok()) << made.status();
    EXPECT_EQ((*made)->data(), pool);
    if (by_hand) {
      const absl::Status refused = (*made)->release();
      EXPECT_EQ(error_reason(refused), Reason::kInvalidArgument);
      EXPECT_THAT(std::string(refused.message()), HasSubstr("uses it"));
      EXPECT_EQ((*made)->bytes(), 100);
      in_use = false;
      EXPECT_TRUE((*made)->release().ok());
      EXPECT_TRUE((*made)->release().ok());
      EXPECT_EQ((*made)->data(), nullptr);
    }
  }
  EXPECT_EQ(registered, 2);
  EXPECT_EQ(released, 2);
}

TEST(AllocationTest, IsRefusedWhereTheBackendHasNone) {
  FakeBackend fake;
  const auto backend = fake.open();
  char pool[8];
  const absl::Status made = Allocation::make(backend, 8).status();
  EXPECT_EQ(error_reason(made), Reason::kUnsupported);
  EXPECT_THAT(std::string(made.message()), HasSubstr("fake has no memory"));
  const absl::Status told =
      Allocation::of_callers(backend, pool, sizeof pool).status();
  EXPECT_EQ(error_reason(told), Reason::kUnsupported);
  EXPECT_THAT(std::string(told.message()),
              HasSubstr("no use for registered memory"));
}

TEST(AllocationTest, BadInputDoesNotReachTheBackend) {
  FakeBackend fake;
  fake.mem_register = [](void*, uint64_t) -> int32_t {
    ADD_FAILURE();
    return DW_OK;
  };
  const auto backend = fake.open();
  char pool[8];
  for (const absl::Status& refused :
       {Allocation::of_callers(backend, nullptr, 8).status(),
        Allocation::of_callers(backend, pool, -1).status()})
    EXPECT_EQ(error_reason(refused), Reason::kInvalidArgument) << refused;
}

}  // namespace
}  // namespace distwrap::comm
