#include "base/nearest.h"

#include "sdk/spelling.h"

#include <gtest/gtest.h>

namespace distwrap::base {
namespace {

TEST(Nearest, CountsEdits) {
  EXPECT_EQ(dw_sdk::edit_distance("", ""), 0u);
  EXPECT_EQ(dw_sdk::edit_distance("", "abc"), 3u);
  EXPECT_EQ(dw_sdk::edit_distance("abc", ""), 3u);
  EXPECT_EQ(dw_sdk::edit_distance("run", "run"), 0u);
  EXPECT_EQ(dw_sdk::edit_distance("kitten", "sitting"), 3u);
  EXPECT_EQ(dw_sdk::edit_distance("allreduce", "all_reduce"), 1u);
}

TEST(Nearest, IsTheFirstWithTheFewestEdits) {
  EXPECT_EQ(nearest("bnech", {"run", "bench", "info"}), "bench");
  EXPECT_EQ(nearest("x", {"b", "a"}), "b");
  EXPECT_EQ(nearest("", {"long", "ab"}), "ab");
  EXPECT_EQ(nearest("x", {}), "");
}

TEST(Nearest, PrefersWhatTheNameBegins) {
  EXPECT_EQ(nearest("doc", {"man", "run", "doctor"}), "doctor");
  EXPECT_EQ(nearest("--vers", {"--help", "--version"}), "--version");
  EXPECT_EQ(nearest("a", {"abc", "ab", "b"}), "ab");
}

}  // namespace
}  // namespace distwrap::base
