#include "store/run_directory.h"

#include "distwrap/status.h"

#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

namespace distwrap::store {
namespace {

namespace fs = std::filesystem;
using base::Environment;
using ::testing::HasSubstr;

class RunDirectoryTest : public ::testing::Test {
 protected:
  RunDirectoryTest() {
    char path[] = "/tmp/distwrap_test_XXXXXX";
    folder_ = mkdtemp(path);
  }
  ~RunDirectoryTest() override { fs::remove_all(folder_); }

  absl::StatusOr<RunDirectory> make_in(const std::string& folder) {
    return RunDirectory::make(
        Environment(Environment::Variables{{"DISTWRAP_RUN_DIR", folder}}));
  }
  void expect_refused(const std::string& folder, const char* part) {
    const absl::Status status = make_in(folder).status();
    EXPECT_EQ(error_reason(status), Reason::kRunDirectory) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(folder));
    EXPECT_THAT(std::string(status.message()), HasSubstr(part));
    EXPECT_THAT(std::string(status.message()), HasSubstr("DISTWRAP_RUN_DIR"));
  }

  std::string folder_;
};

TEST_F(RunDirectoryTest, IsPrivateAndGoes) {
  std::string path;
  {
    const auto directory = make_in(folder_);
    ASSERT_TRUE(directory.ok()) << directory.status();
    path = directory->path();
    EXPECT_TRUE(absl::StartsWith(path, folder_ + "/distwrap-"));
    struct stat info = {};
    ASSERT_EQ(stat(path.c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 07777, 0700u);
    EXPECT_EQ(info.st_uid, geteuid());
    std::ofstream(path + "/left") << "over";
    fs::create_directory(path + "/folder");
  }
  EXPECT_FALSE(fs::exists(path));
  EXPECT_TRUE(fs::is_empty(folder_));
}

TEST_F(RunDirectoryTest, ModeDoesNotDependOnTheUmask) {
  const mode_t before = umask(0);
  const auto directory = make_in(folder_);
  umask(before);
  ASSERT_TRUE(directory.ok()) << directory.status();
  struct stat info = {};
  ASSERT_EQ(stat(directory->path().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0700u);
}

TEST_F(RunDirectoryTest, SessionFolderThenTmp) {
  auto directory = RunDirectory::make(
      Environment(Environment::Variables{{"XDG_RUNTIME_DIR", folder_}}));
  ASSERT_TRUE(directory.ok());
  EXPECT_TRUE(absl::StartsWith(directory->path(), folder_));
  // An unusable XDG_RUNTIME_DIR is skipped; an unusable DISTWRAP_RUN_DIR is an
  // error.
  for (const char* useless : {"relative", "/proc/none", ""}) {
    directory = RunDirectory::make(
        Environment(Environment::Variables{{"XDG_RUNTIME_DIR", useless}}));
    ASSERT_TRUE(directory.ok()) << directory.status();
    EXPECT_TRUE(absl::StartsWith(directory->path(), "/tmp/distwrap-"));
  }
}

TEST_F(RunDirectoryTest, Refusals) {
  expect_refused(folder_ + "/missing", "errno 2");
  expect_refused("relative", "absolute");
  expect_refused("/proc", "cannot be made");
  std::ofstream(folder_ + "/file") << "";
  expect_refused(folder_ + "/file", "not a folder");
  const std::string deep = folder_ + "/" + std::string(90, 'x');
  fs::create_directory(deep);
  expect_refused(deep, "too long");
  // Any user could replace the directory.
  ASSERT_EQ(chmod(folder_.c_str(), 0777), 0);
  expect_refused(folder_, "rename");
  ASSERT_EQ(chmod(folder_.c_str(), 01777), 0);
  EXPECT_TRUE(make_in(folder_).ok());
  if (geteuid() == 0) {
    ASSERT_EQ(chown(folder_.c_str(), 65534, 65534), 0);
    expect_refused(folder_, "another user");
  }
}

TEST_F(RunDirectoryTest, DeadJobsAreTidiedAwayLiveOnesStay) {
  const pid_t child = fork();
  if (child == 0) {
    auto dead = make_in(folder_);
    if (dead.ok()) std::ofstream(dead->path() + "/store") << "";
    _exit(dead.ok() ? 0 : 1);  // without its destructor
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_EQ(status, 0);
  ASSERT_FALSE(fs::is_empty(folder_));
  fs::create_directory(folder_ + "/distwrap-notours-by-length");
  fs::create_directory(folder_ + "/other");

  const auto first = make_in(folder_);
  ASSERT_TRUE(first.ok()) << first.status();
  const auto second = make_in(folder_);
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_TRUE(fs::exists(first->path()));
  EXPECT_TRUE(fs::exists(second->path()));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), {}), 4);
}

TEST_F(RunDirectoryTest, LinksAreNotFollowed) {
  // A link in the place of a dead job's directory must not cost its target.
  fs::create_directory(folder_ + "/precious");
  ASSERT_EQ(chmod((folder_ + "/precious").c_str(), 0700), 0);
  std::ofstream(folder_ + "/precious/data") << "";
  fs::create_symlink(folder_ + "/precious", folder_ + "/distwrap-abcdef");
  ASSERT_TRUE(make_in(folder_).ok());
  EXPECT_TRUE(fs::exists(folder_ + "/precious/data"));
}

TEST_F(RunDirectoryTest, MovesAndRemovesOnce) {
  auto directory = make_in(folder_);
  ASSERT_TRUE(directory.ok());
  RunDirectory moved = *std::move(directory);
  EXPECT_TRUE(fs::exists(moved.path()));
  moved.remove();
  EXPECT_TRUE(fs::is_empty(folder_));
  moved.remove();
}

}  // namespace
}  // namespace distwrap::store
