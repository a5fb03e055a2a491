// The memory that ranks of a host share.
#include "comm/board/host_memory.h"

#include "base/error.h"

#include <gtest/gtest.h>

#include <optional>
#include <sys/resource.h>
#include <unistd.h>
#include <utility>

namespace distwrap::comm {
namespace {

TEST(HostMemory, OfAnotherSizeOrUnsealedIsRefused) {
  auto memory = HostMemory::make(2);
  ASSERT_TRUE(memory.ok());
  base::Descriptor copy(dup((*memory)->descriptor()));
  EXPECT_EQ(error_reason(HostMemory::adopt(std::move(copy), 3).status()),
            Reason::kRefused);
  EXPECT_TRUE(
      HostMemory::adopt(base::Descriptor(dup((*memory)->descriptor())), 2)
          .ok());
  EXPECT_FALSE(HostMemory::adopt(base::Descriptor(), 2).ok());
}

// Beyond that the kernel would end the process.
TEST(HostMemory, WhatTheControlGroupDoesNotLeaveIsRefusedWithBothNumbers) {
  auto memory = HostMemory::make(2);
  ASSERT_TRUE(memory.ok()) << memory.status();
  const GroupPage& page = (*memory)->area(0).groups[0];
  const absl::Status refused = (*memory)->reserve(&page, {1, 69631, 1 << 20});
  const std::optional<ErrorInfo> info = error_info(refused);
  ASSERT_TRUE(info.has_value());
  EXPECT_EQ(info->reason, Reason::kOutOfMemory);
  EXPECT_EQ(info->expected, "4096 bytes, and 65536 that stay free");
  EXPECT_EQ(info->actual, "69631 bytes left of its limit of 1048576");
  EXPECT_TRUE((*memory)->reserve(&page, {1, 69632, 1 << 20}).ok());
  EXPECT_TRUE((*memory)->reserve(&page, {0, 0, 0}).ok());
}

// A larger file would be a signal.
TEST(HostMemory, BeyondTheLimitOfFileSizesIsAnError) {
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit low = {2 * kAreaBytes - 1, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &low), 0);
  const auto refused = HostMemory::make(2);
  const auto fits = HostMemory::make(1);
  setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_EQ(error_reason(refused.status()), Reason::kResourceLimit)
      << refused.status();
  EXPECT_TRUE(fits.ok()) << fits.status();
  EXPECT_TRUE(HostMemory::make(2).ok());
}

}  // namespace
}  // namespace distwrap::comm
