#include "hostmem/segment.h"

#include <gtest/gtest.h>

#include <sys/resource.h>

namespace dw_hostmem {
namespace {

// A larger file would be a signal.
TEST(Segment, BeyondTheLimitOfFileSizesIsAnError) {
  constexpr size_t kBytes = 1 << 20;
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit low = {kBytes - 1, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &low), 0);
  Segment segment("test");
  dw_error error = {};
  const int32_t code = segment.create(kBytes, &error);
  setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_EQ(code, DW_RESOURCE_EXHAUSTED);
  EXPECT_EQ(error.reason, DW_REASON_RESOURCE_LIMIT) << error.text;
  Segment another("test");
  EXPECT_EQ(another.create(kBytes, &error), DW_OK) << error.text;
}

}  // namespace
}  // namespace dw_hostmem
