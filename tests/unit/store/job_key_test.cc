// The secret of a job: its forms, what is refused, and that it stays nowhere.
#include "store/job_key.h"

#include "base/settings.h"
#include "distwrap/status.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdlib.h>
#include <string>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

namespace distwrap::store {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

const std::string kDigits(64, 'a');

class JobKeyTest : public ::testing::Test {
 protected:
  JobKeyTest() {
    char path[] = "/tmp/distwrap_test_XXXXXX";
    folder_ = mkdtemp(path);
  }
  ~JobKeyTest() override { std::filesystem::remove_all(folder_); }

  std::string file(const std::string& text, mode_t mode) {
    const std::string path = folder_ + "/key";
    std::ofstream(path) << text;
    chmod(path.c_str(), mode);
    return path;
  }
  void expect_refused(const std::string& text, const std::string& part) {
    const absl::Status status = JobKey::read(text).status();
    EXPECT_EQ(error_reason(status), Reason::kAuthFailed) << text;
    EXPECT_THAT(std::string(status.message()),
                AllOf(HasSubstr(part), HasSubstr("--make-key"),
                      Not(HasSubstr("abcdef"))));
  }

  std::string folder_;
};

TEST_F(JobKeyTest, FormsGiveOneKey) {
  const JobKey plain = *JobKey::read(kDigits);
  EXPECT_FALSE(plain.is_public());
  const std::string path = file(kDigits + "\n", 0600);
  const auto read = JobKey::read("file:" + path);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->control(), plain.control());
  const int fd = open(path.c_str(), O_RDONLY);
  const auto passed = JobKey::read("fd:" + std::to_string(fd));
  ASSERT_TRUE(passed.ok()) << passed.status();
  EXPECT_EQ(passed->control(), plain.control());
  EXPECT_EQ(fcntl(fd, F_GETFD), -1) << "the descriptor is closed";
  EXPECT_EQ(JobKey::read(std::string(64, 'A'))->control(), plain.control());
  EXPECT_NE(JobKey::read(std::string(66, 'a'))->control(), plain.control());
  EXPECT_TRUE(JobKey::read("none")->is_public());
}

TEST_F(JobKeyTest, WhatIsRefusedIsNamedWithoutADigit) {
  expect_refused("abcdef0123", "wrong length");
  expect_refused(std::string(130, 'a'), "wrong length");
  expect_refused(std::string(64, 'g'), "no hexadecimal digit");
  expect_refused("", "wrong length");
  expect_refused("file:relative", "no absolute path");
  expect_refused("/abcdef/key", "file:/path for a file");
  expect_refused("file:/nowhere/key", "errno 2");
  expect_refused("fd:x", "no number");
  expect_refused("fd:999", "errno 9");
  expect_refused("file:" + file("abcdef", 0600), "wrong length");
  expect_refused("file:" + file(kDigits, 0644), "mode 0644");
  expect_refused("file:" + folder_, "no regular file");
  ASSERT_EQ(symlink((folder_ + "/key").c_str(), (folder_ + "/link").c_str()),
            0);
  expect_refused("file:" + folder_ + "/link", "cannot be read");
}

TEST_F(JobKeyTest, AMadeFileIsPrivateAndUsable) {
  const std::string path = folder_ + "/made";
  ASSERT_TRUE(JobKey::make_file(path).ok());
  struct stat info = {};
  ASSERT_EQ(stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  EXPECT_TRUE(JobKey::read("file:" + path).ok());
  EXPECT_EQ(error_reason(JobKey::make_file(path)), Reason::kInvalidArgument)
      << "a file that exists stays";
  const std::string other = folder_ + "/other";
  ASSERT_TRUE(JobKey::make_file(other).ok());
  EXPECT_NE(JobKey::read("file:" + path)->control(),
            JobKey::read("file:" + other)->control());
}

std::string environ_of_self() {
  std::ifstream file("/proc/self/environ", std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

// /proc/self/environ shows the memory with which a process started, so the test
// starts itself again.
TEST_F(JobKeyTest, TheEnvironmentDoesNotKeepIt) {
  if (getenv("JOB_KEY_TEST_INSIDE") == nullptr) {
    const pid_t pid = fork();
    if (pid == 0) {
      setenv("JOB_KEY_TEST_INSIDE", "1", 1);
      setenv("DISTWRAP_JOB_KEY", std::string(64, 'b').c_str(), 1);
      execl("/proc/self/exe", "store_test",
            "--gtest_filter=JobKeyTest.TheEnvironmentDoesNotKeepIt", nullptr);
      _exit(127);
    }
    int status = 0;
    ASSERT_EQ(waitpid(pid, &status, 0), pid);
    EXPECT_EQ(status, 0);
    return;
  }
  ASSERT_THAT(environ_of_self(), HasSubstr(std::string(64, 'b')));
  EXPECT_EQ(base::Environment::of_process().get(base::Setting::kJobKey),
            base::Environment::kConcealed);
  const auto key = JobKey::of_process();
  ASSERT_TRUE(key.ok() && key->has_value()) << key.status();
  EXPECT_THAT(environ_of_self(), Not(HasSubstr("bbbb")));
  EXPECT_EQ(getenv("DISTWRAP_JOB_KEY"), nullptr);
  EXPECT_EQ((*JobKey::of_process())->control(), (*key)->control())
      << "a second session has it, too";
}

}  // namespace
}  // namespace distwrap::store
