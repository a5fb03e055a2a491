// What control groups leave, read from made-up files.
#include "headroom.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace shm_backend {
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
  Headroom read() const {
    return read_headroom((root_ / "self").string(), root_.string());
  }

  std::filesystem::path root_;
};

TEST_F(HeadroomTest, NothingToReadDoesNotLimit) {
  EXPECT_FALSE(read().limited);
  write("self", "nonsense\n:\n::\n0::/gone\n");
  EXPECT_FALSE(read().limited);
}

TEST_F(HeadroomTest, UnlimitedGroupsDoNotLimit) {
  write("self", "0::/job\n");
  write("job/memory.max", "max\n");
  write("job/memory.current", "100\n");
  EXPECT_FALSE(read().limited);
}

TEST_F(HeadroomTest, TightestOfNestedGroupsCounts) {
  write("self", "0::/outer/inner\n");
  write("outer/memory.max", "1000\n");
  write("outer/memory.current", "900\n");
  write("outer/inner/memory.max", "5000\n");
  write("outer/inner/memory.current", "200\n");
  EXPECT_TRUE(read().limited);
  EXPECT_EQ(read().free_bytes, 100u);
  EXPECT_EQ(read().limit_bytes, 1000u);
}

TEST_F(HeadroomTest, ReclaimablePagesAreFree) {
  write("self", "0::/\n");
  write("memory.max", "1000\n");
  write("memory.current", "900\n");
  write("memory.stat", "anon 300\ninactive_file 600\nother 7\n");
  EXPECT_EQ(read().free_bytes, 700u);
}

TEST_F(HeadroomTest, OlderHierarchiesAreRead) {
  write("self", "4:memory:/job\n3:cpu:/job\n");
  write("memory/job/memory.limit_in_bytes", "4096\n");
  write("memory/job/memory.usage_in_bytes", "8192\n");
  EXPECT_TRUE(read().limited);
  EXPECT_EQ(read().free_bytes, 0u);
}

}  // namespace
}  // namespace shm_backend
