#include "hostmem/segment.h"

#include <gtest/gtest.h>

#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>
#include <utility>

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

TEST(Segment, IsMappedByItsDescriptor) {
  Segment own("test"), seen("test");
  dw_error error = {};
  ASSERT_EQ(own.create(8192, &error), DW_OK) << error.text;
  ASSERT_EQ(own.reserve(0, 8192, &error), DW_OK) << error.text;
  ASSERT_EQ(seen.adopt(descriptor_of(getpid(), own.fd()), &error), DW_OK)
      << error.text;
  own.close_descriptor();
  seen.close_descriptor();
  own.data()[8191] = 'x';
  EXPECT_EQ(seen.data()[8191], 'x');
}

// The number may stand for another file by the time it is opened.
TEST(Segment, OtherFilesAreNotMapped) {
  const auto adopts = [](int fd) {
    Segment segment("test");
    Descriptor opened = descriptor_of(getpid(), fd);
    return opened.is_open() &&
           segment.adopt(std::move(opened), nullptr) == DW_OK;
  };
  const Descriptor unsealed(memfd_create("unsealed", MFD_ALLOW_SEALING));
  EXPECT_FALSE(adopts(unsealed.get()));
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const Descriptor in(ends[0]), out(ends[1]);
  EXPECT_FALSE(adopts(in.get()));
  EXPECT_FALSE(adopts(out.get()));
  EXPECT_FALSE(adopts(1 << 20));
}

}  // namespace
}  // namespace dw_hostmem
