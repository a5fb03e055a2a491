#include "plugin/trust.h"

#include "scratch.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <unistd.h>

namespace distwrap::plugin {
namespace {

using ::testing::HasSubstr;

TEST(Trust, GivesTheRealPath) {
  const Scratch scratch;
  const std::string file = scratch.write("x.so", "bytes");
  EXPECT_EQ(*trusted_path(file), file);
  std::filesystem::create_symlink(file, scratch.path("link.so"));
  EXPECT_EQ(*trusted_path(scratch.path("link.so")), file);
  EXPECT_EQ(*trusted_path(
                scratch.path("./../" + file.substr(file.rfind("/distwrap_")))),
            file);
}

TEST(Trust, RelativePathsAreRefused) {
  for (const char* path : {"", "x.so", "./x.so", "../x.so", "~/x.so"})
    expect_refused(trusted_path(path).status(), Refusal::kRelativePath, path);
}

TEST(Trust, MissingFilesAreNotFound) {
  const Scratch scratch;
  const std::string file = scratch.write("x.so", "bytes");
  for (const std::string& path :
       {scratch.path("y.so"), scratch.path("no/y.so"), file + "/y.so"}) {
    const absl::Status status = trusted_path(path).status();
    EXPECT_EQ(error_reason(status), Reason::kPluginNotFound) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(path));
  }
  std::filesystem::create_symlink("nowhere", scratch.path("dangling"));
  EXPECT_EQ(error_reason(trusted_path(scratch.path("dangling")).status()),
            Reason::kPluginNotFound);
}

TEST(Trust, OddPaths) {
  const Scratch scratch;
  expect_refused(trusted_path(scratch.path()).status(), Refusal::kNotAFile);
  expect_refused(trusted_path("/").status(), Refusal::kNotAFile);
  expect_refused(trusted_path("/dev/null").status(), Refusal::kNotAFile);
  std::filesystem::create_symlink("loop", scratch.path("loop"));
  expect_refused(trusted_path(scratch.path("loop")).status(),
                 Refusal::kUnreadable);
  expect_refused(trusted_path(std::string("/tmp/\0x", 7)).status(),
                 Refusal::kUnreadable, "zero byte");
  expect_refused(trusted_path("/" + std::string(5000, 'x')).status(),
                 Refusal::kUnreadable);
}

TEST(Trust, WritableFilesAreRefused) {
  const Scratch scratch;
  const std::string file = scratch.write("x.so", "bytes");
  ASSERT_EQ(chmod(file.c_str(), 0757), 0);
  expect_refused(trusted_path(file).status(), Refusal::kWritableByOthers,
                 file + " has mode 757");
  ASSERT_EQ(chmod(file.c_str(), 0775), 0);
  EXPECT_TRUE(trusted_path(file).ok()) << "our own group may write";
  // The sticky bit of a file protects nothing.
  ASSERT_EQ(chmod(file.c_str(), 01757), 0);
  expect_refused(trusted_path(file).status(), Refusal::kWritableByOthers);
}

TEST(Trust, EveryFolderAboveCounts) {
  const Scratch scratch;
  const std::string outer = scratch.folder("outer");
  scratch.folder("outer/inner");
  const std::string file = scratch.write("outer/inner/x.so", "bytes");
  ASSERT_TRUE(trusted_path(file).ok());
  ASSERT_EQ(chmod(outer.c_str(), 0757), 0);
  expect_refused(trusted_path(file).status(), Refusal::kWritableByOthers,
                 outer + " has mode");
  ASSERT_EQ(chmod(outer.c_str(), 01777), 0);
  EXPECT_TRUE(trusted_path(file).ok()) << "sticky";
}

TEST(Trust, ALinkDoesNotHideAnUntrustedFolder) {
  const Scratch scratch;
  const std::string open = scratch.folder("open");
  scratch.write("open/x.so", "bytes");
  ASSERT_EQ(chmod(open.c_str(), 0777), 0);
  scratch.folder("safe");
  std::filesystem::create_symlink(open + "/x.so", scratch.path("safe/x.so"));
  expect_refused(trusted_path(scratch.path("safe/x.so")).status(),
                 Refusal::kWritableByOthers, open);
  std::filesystem::create_directory_symlink(open, scratch.path("safe/folder"));
  expect_refused(trusted_path(scratch.path("safe/folder/x.so")).status(),
                 Refusal::kWritableByOthers, open);
}

TEST(Trust, OwnersAndGroups) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can give files away";
  const Scratch scratch;
  const std::string folder = scratch.folder("folder");
  const std::string file = scratch.write("folder/x.so", "bytes");
  ASSERT_EQ(chown(file.c_str(), 12345, getegid()), 0);
  expect_refused(trusted_path(file).status(), Refusal::kForeignOwner, "12345");
  ASSERT_EQ(chown(file.c_str(), 0, 12345), 0);
  EXPECT_TRUE(trusted_path(file).ok()) << "a group that may not write";
  ASSERT_EQ(chmod(file.c_str(), 0775), 0);
  expect_refused(trusted_path(file).status(), Refusal::kWritableByOthers, file);
  ASSERT_EQ(chmod(file.c_str(), 0755), 0);
  ASSERT_EQ(chown(folder.c_str(), 12345, getegid()), 0);
  expect_refused(trusted_path(file).status(), Refusal::kForeignOwner, folder);
}

}  // namespace
}  // namespace distwrap::plugin
