#include "columns.h"

#include <gtest/gtest.h>

namespace distwrap::cli {
namespace {

TEST(Columns, AreAsWideAsTheWidestCell) {
  EXPECT_EQ(columns({{"a", "bb", "c"}, {"long", "b"}}, "> "),
            "> a     bb  c\n> long  b\n");
  EXPECT_EQ(columns({}, "  "), "");
  EXPECT_EQ(columns({{"", ""}}, ""), "\n");
}

TEST(Columns, MarkdownKeepsCellsInTheirPlace) {
  EXPECT_EQ(markdown_table({"a", "b"}, {{"x|y", "two\nlines"}}),
            "| a | b |\n| --- | --- |\n| x\\|y | two lines |\n");
}

}  // namespace
}  // namespace distwrap::cli
