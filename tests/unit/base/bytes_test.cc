#include "base/bytes.h"

#include <gtest/gtest.h>

namespace distwrap::base {
namespace {

TEST(Bytes, WhatIsWrittenIsRead) {
  ByteWriter out;
  out.u8(0xab);
  out.u16(0xbeef);
  out.u32(0xdeadbeef);
  out.u64(0x0123456789abcdef);
  out.i64(-5);
  out.text("hello");
  ByteReader in(out.str());
  EXPECT_EQ(in.u8(), 0xab);
  EXPECT_EQ(in.u16(), 0xbeef);
  EXPECT_EQ(in.u32(), 0xdeadbeefu);
  EXPECT_EQ(in.u64(), 0x0123456789abcdefu);
  EXPECT_EQ(in.i64(), -5);
  EXPECT_EQ(in.text(16), "hello");
  EXPECT_TRUE(in.done());
}

TEST(Bytes, EveryTruncationIsSeenAndSticks) {
  ByteWriter out;
  out.u32(7);
  out.text("hello");
  for (size_t size = 0; size < out.str().size(); ++size) {
    ByteReader in(absl::string_view(out.str()).substr(0, size));
    in.u32();
    EXPECT_EQ(in.text(16), "") << size;
    EXPECT_FALSE(in.ok()) << size;
    EXPECT_EQ(in.u8(), 0) << size;
    EXPECT_FALSE(in.done()) << size;
  }
}

TEST(Bytes, LengthBeyondTheLimitIsRefusedThoughTheBytesAreThere) {
  ByteWriter out;
  out.text("hello");
  ByteReader in(out.str());
  EXPECT_EQ(in.text(4), "");
  EXPECT_FALSE(in.ok());
}

TEST(Bytes, RestIsNotDone) {
  ByteReader in("ab");
  in.u8();
  EXPECT_TRUE(in.ok());
  EXPECT_FALSE(in.done());
  EXPECT_EQ(in.left(), 1u);
}

}  // namespace
}  // namespace distwrap::base
