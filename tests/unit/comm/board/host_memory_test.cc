// The memory that ranks of a host share.
#include "comm/board/host_memory.h"

#include "base/error.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace distwrap::comm
