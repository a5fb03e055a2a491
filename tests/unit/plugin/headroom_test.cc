// The headroom of control groups, read from made-up files.
#include "sdk/headroom.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace distwrap::plugin {
namespace {

class HeadroomTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "/headroomXXXXXX";
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    root_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(root_); }

  void write(const std::string& name, const std::string& text) {
    const std::filesystem::path path = root_ / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  dw_headroom read() const {
    return dw_read_headroom_at((root_ / "self").c_str(), root_.c_str());
  }

  std::filesystem::path root_;
};

TEST_F(HeadroomTest, NothingToReadDoesNotLimit) {
  EXPECT_EQ(read().limited, 0);
  write("self", "nonsense\n:\n::\n0::/gone\n");
  EXPECT_EQ(read().limited, 0);
}

TEST_F(HeadroomTest, UnlimitedGroupsDoNotLimit) {
  write("self", "0::/job\n");
  write("job/memory.max", "max\n");
  write("job/memory.current", "100\n");
  EXPECT_EQ(read().limited, 0);
}

TEST_F(HeadroomTest, TightestOfNestedGroupsCounts) {
  write("self", "0::/outer/inner\n");
  write("outer/memory.max", "1000\n");
  write("outer/memory.current", "900\n");
  write("outer/inner/memory.max", "5000\n");
  write("outer/inner/memory.current", "200\n");
  EXPECT_EQ(read().limited, 1);
  EXPECT_EQ(read().left, 100u);
  EXPECT_EQ(read().limit, 1000u);
}

TEST_F(HeadroomTest, SomeStaysFree) {
  const dw_headroom none = {0, 0, 0};
  EXPECT_TRUE(dw_headroom_holds(&none, UINT64_MAX));
  const dw_headroom some = {1, DW_HEADROOM_SPARE + 100, 1 << 20};
  EXPECT_TRUE(dw_headroom_holds(&some, 100));
  EXPECT_FALSE(dw_headroom_holds(&some, 101));
  const dw_headroom less = {1, DW_HEADROOM_SPARE - 1, 1 << 20};
  EXPECT_FALSE(dw_headroom_holds(&less, 0));
}

TEST_F(HeadroomTest, ReclaimablePagesAreFree) {
  write("self", "0::/\n");
  write("memory.max", "1000\n");
  write("memory.current", "900\n");
  write("memory.stat", "anon 300\ninactive_file 600\nother 7\n");
  EXPECT_EQ(read().left, 700u);
}

TEST_F(HeadroomTest, OlderHierarchiesAreRead) {
  write("self", "4:memory:/job\n3:cpu:/job\n");
  write("memory/job/memory.limit_in_bytes", "4096\n");
  write("memory/job/memory.usage_in_bytes", "8192\n");
  EXPECT_EQ(read().limited, 1);
  EXPECT_EQ(read().left, 0u);
}

}  // namespace
}  // namespace distwrap::plugin
