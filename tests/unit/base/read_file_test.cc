#include "base/read_file.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <cstdio>
#include <fstream>

namespace distwrap::base {
namespace {

TEST(ReadFile, GivesTheWholeContent) {
  const std::string path = ::testing::TempDir() + "read_file";
  const std::string text = std::string(5000, 'x') + "\n" + std::string(1, '\0');
  std::ofstream(path, std::ios::binary) << text;
  EXPECT_EQ(read_file(path), text);
  std::ofstream(path, std::ios::trunc).close();
  EXPECT_EQ(read_file(path), "");
  std::remove(path.c_str());
  EXPECT_EQ(read_file(path), std::nullopt);
  EXPECT_EQ(errno, ENOENT);
  EXPECT_EQ(read_file("/proc"), std::nullopt);
  EXPECT_EQ(errno, EISDIR);
}

TEST(ReadFile, TakesLines) {
  absl::string_view text = "one\n\nlast";
  EXPECT_EQ(take_line(&text), "one");
  EXPECT_EQ(take_line(&text), "");
  EXPECT_EQ(take_line(&text), "last");
  EXPECT_TRUE(text.empty());
  EXPECT_EQ(take_line(&text), "");
}

}  // namespace
}  // namespace distwrap::base
