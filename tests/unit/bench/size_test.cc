#include "bench/size.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace distwrap::bench {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(Size, ReadsUnits) {
  EXPECT_EQ(*parse_size("8"), 8);
  EXPECT_EQ(*parse_size("4K"), 4096);
  EXPECT_EQ(*parse_size("4k"), 4096);
  EXPECT_EQ(*parse_size("4KiB"), 4096);
  EXPECT_EQ(*parse_size("1M"), 1 << 20);
  EXPECT_EQ(*parse_size("64MB"), 64 << 20);
  EXPECT_EQ(*parse_size("2G"), int64_t{2} << 30);
  EXPECT_EQ(*parse_size("12B"), 12);
  EXPECT_EQ(*parse_size("0"), 0);
}

TEST(Size, RefusesWhatIsNone) {
  for (const char* text :
       {"", "K", "4Q", "-8", "+8", " 8", "8 ", "4KB4", "1.5M", "0x10", "4KK",
        "99999999999999999999", "4iB"}) {
    EXPECT_FALSE(parse_size(text).ok()) << text;
  }
  EXPECT_THAT(std::string(parse_size("4Q").status().message()),
              HasSubstr("'4Q' is not a size"));
}

TEST(Size, RefusesMoreThanAnybodyHas) {
  EXPECT_TRUE(parse_size("1024G").ok());
  EXPECT_FALSE(parse_size("1025G").ok());
  EXPECT_FALSE(parse_size("999999999999999999G").ok());
}

TEST(Size, ReadsLists) {
  EXPECT_THAT(*parse_sizes("8,4K,1M"), ElementsAre(8, 4096, 1 << 20));
  EXPECT_FALSE(parse_sizes("8,,1M").ok());
  EXPECT_FALSE(parse_sizes("8,0").ok());
  EXPECT_FALSE(parse_sizes("").ok());
}

TEST(Size, RangeEndsAtTheLastSizeThatIsNotAboveTheMaximum) {
  EXPECT_THAT(*size_range(8, 4096, 8, 0), ElementsAre(8, 64, 512, 4096));
  EXPECT_THAT(*size_range(8, 4095, 8, 0), ElementsAre(8, 64, 512));
  EXPECT_THAT(*size_range(8, 8, 2, 0), ElementsAre(8));
  EXPECT_THAT(*size_range(10, 35, 2, 10), ElementsAre(10, 20, 30));
  // The largest size does not overflow in between.
  EXPECT_EQ(size_range(kMaxBytes / 2, kMaxBytes, 1 << 30, 0)->size(), 1u);
}

TEST(Size, RangeRefusesWhatDoesNotGrow) {
  EXPECT_FALSE(size_range(0, 8, 2, 0).ok());
  EXPECT_FALSE(size_range(16, 8, 2, 0).ok());
  EXPECT_FALSE(size_range(8, 16, 1, 0).ok());
  EXPECT_FALSE(size_range(8, 16, -2, 0).ok());
  EXPECT_FALSE(size_range(1, kMaxBytes, 2, 1).ok());
}

TEST(Size, IsWrittenForPeople) {
  EXPECT_EQ(format_size(8), "8 B");
  EXPECT_EQ(format_size(4096), "4 KiB");
  EXPECT_EQ(format_size(1536), "1.5 KiB");
  EXPECT_EQ(format_size(16 << 20), "16 MiB");
  EXPECT_EQ(format_size(int64_t{3} << 40), "3072 GiB");
}

}  // namespace
}  // namespace distwrap::bench
