#include "output.h"

#include <gtest/gtest.h>

namespace distwrap::cli {
namespace {

TEST(LinePrefixer, WholeLinesOnly) {
  LinePrefixer lines("[0] ");
  EXPECT_EQ(lines.add("a\nb"), "[0] a\n");
  EXPECT_EQ(lines.add(""), "");
  EXPECT_EQ(lines.add("c\n\nd\n"), "[0] bc\n[0] \n[0] d\n");
  EXPECT_EQ(lines.finish(), "");
}

TEST(LinePrefixer, LastLineWithoutNewline) {
  LinePrefixer lines("[1] ");
  EXPECT_EQ(lines.add("end"), "");
  EXPECT_EQ(lines.finish(), "[1] end\n");
  EXPECT_EQ(lines.finish(), "");
}

TEST(LinePrefixer, EndlessLinesAreBroken) {
  LinePrefixer lines("> ");
  const std::string most(LinePrefixer::kLongestLine, 'x');
  EXPECT_EQ(lines.add(most + "yz"), "> " + most + "\n");
  EXPECT_EQ(lines.add("\n"), "> yz\n");
}

TEST(LinePrefixer, BytesStayAsTheyAre) {
  LinePrefixer lines("[0] ");
  const std::string bytes("\0\xff\r\n", 4);
  EXPECT_EQ(lines.add(bytes), "[0] " + bytes);
}

}  // namespace
}  // namespace distwrap::cli
