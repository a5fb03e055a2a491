// The store that the process of rank 0 serves: which process gets the place,
// and the obstacles.
#include "store/hosted_store.h"

#include "distwrap/abi/note.h"
#include "distwrap/status.h"
#include "distwrap/store.h"
#include "store/rendezvous.h"
#include "store/server_thread.h"

#include <absl/strings/str_cat.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <signal.h>
#include <stdlib.h>
#include <string>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

namespace distwrap::store {
namespace {

namespace fs = std::filesystem;
using base::Environment;
using ::testing::HasSubstr;

Deadline soon() { return Deadline::after(absl::Seconds(10)); }

// The variables that tell a child what to do.
constexpr char kPath[] = "HOSTED_STORE_PATH", kReady[] = "HOSTED_STORE_READY";

class HostedStore : public ::testing::Test {
 protected:
  HostedStore() {
    char path[] = "/tmp/distwrap_test_XXXXXX";
    folder_ = mkdtemp(path);
  }
  ~HostedStore() override {
    if (child_ > 0) {
      kill(child_, SIGKILL);
      waitpid(child_, nullptr, 0);
    }
    fs::remove_all(folder_);
  }

  Environment environment() const {
    return Environment(Environment::Variables{{"DISTWRAP_RUN_DIR", folder_}});
  }
  std::string path_of(const std::string& name) const {
    const auto path = meeting_path(environment(), name);
    EXPECT_TRUE(path.ok()) << path.status();
    return *path;
  }
  // A new program that serves there, and then ends or does not. A forked child
  // would not do: ThreadSanitizer considers the parent's threads alive in it,
  // and mistakes a new thread for one of them.
  static pid_t start_host(const std::string& path, int ready = -1) {
    const std::string there = absl::StrCat(kPath, "=", path);
    const std::string tell = absl::StrCat(kReady, "=", ready);
    std::vector<char*> variables = {const_cast<char*>(there.c_str()),
                                    const_cast<char*>(tell.c_str())};
    for (char** entry = environ; *entry != nullptr; ++entry)
      variables.push_back(*entry);
    variables.push_back(nullptr);
    const pid_t child = fork();
    if (child == 0) {
      execle("/proc/self/exe", "store_test", "--gtest_also_run_disabled_tests",
             "--gtest_filter=HostedStoreChild.*", nullptr, variables.data());
      _exit(127);
    }
    return child;
  }
  // Another process that serves there by the time this returns.
  void host_in_child(const std::string& path) {
    int ready[2];
    ASSERT_EQ(pipe(ready), 0);
    child_ = start_host(path, ready[1]);
    char ok = 0;
    ASSERT_EQ(read(ready[0], &ok, 1), 1);
    ASSERT_EQ(ok, 1);
    close(ready[0]);
    close(ready[1]);
  }
  void kill_child() {
    ASSERT_EQ(kill(child_, SIGKILL), 0);
    ASSERT_EQ(waitpid(child_, nullptr, 0), child_);
    child_ = -1;
  }
  void expect_blocked(const std::string& path, const char* part) {
    const absl::Status status = host_store(path, soon());
    EXPECT_EQ(error_reason(status), Reason::kRunDirectory) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(path));
    EXPECT_THAT(std::string(status.message()), HasSubstr(part));
  }

  std::string folder_;
  pid_t child_ = -1;
};

// The child of start_host.
TEST(HostedStoreChild, DISABLED_Serves) {
  const char ok = host_store(getenv(kPath), soon()).ok() ? 1 : 0;
  const int ready = atoi(getenv(kReady));
  if (ready < 0) exit(ok == 1 ? 0 : 1);
  ASSERT_EQ(write(ready, &ok, 1), 1);
  for (;;) pause();
}

TEST_F(HostedStore, ServesOnceAProcess) {
  const std::string path = path_of("a");
  ASSERT_TRUE(host_store(path, soon()).ok());
  const auto store = Store::connect("unix:" + path, soon());
  ASSERT_TRUE(store.ok()) << store.status();
  ASSERT_TRUE((*store)->set("k", "v", soon()).ok());
  ASSERT_TRUE(host_store(path, soon()).ok());
  EXPECT_EQ(*(*store)->get("k", soon()), "v");
}

TEST_F(HostedStore, FolderIsPrivate) {
  struct stat info = {};
  ASSERT_EQ(stat(fs::path(path_of("a")).parent_path().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0700u);
}

TEST_F(HostedStore, AFolderThatOthersEnterIsRefused) {
  const std::string folder = fs::path(path_of("a")).parent_path();
  ASSERT_EQ(chmod(folder.c_str(), 0755), 0);
  const absl::Status status = meeting_path(environment(), "a").status();
  EXPECT_EQ(error_reason(status), Reason::kRunDirectory) << status;
  fs::remove(folder);
  fs::create_symlink("/tmp", folder);
  EXPECT_EQ(error_reason(meeting_path(environment(), "a").status()),
            Reason::kRunDirectory);
  fs::remove(folder);
  std::ofstream(folder) << "";
  EXPECT_EQ(error_reason(meeting_path(environment(), "a").status()),
            Reason::kRunDirectory);
}

TEST_F(HostedStore, TwoJobsOfOneNameDoNotMeet) {
  const std::string path = path_of("a");
  host_in_child(path);
  const absl::Status status =
      host_store(path, Deadline::after(absl::Milliseconds(50)));
  EXPECT_EQ(error_reason(status), Reason::kStoreUnreachable) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr(absl::StrCat("process ", child_)));
}

TEST_F(HostedStore, ADeadJobsPlaceIsTaken) {
  const std::string path = path_of("a");
  host_in_child(path);
  kill_child();
  ASSERT_TRUE(fs::exists(path));
  ASSERT_TRUE(host_store(path, soon()).ok());
  EXPECT_TRUE(Store::connect("unix:" + path, soon()).ok());
}

TEST_F(HostedStore, DeadJobsAreTidiedAwayLiveOnesStay) {
  const std::string dead = path_of("dead"), live = path_of("live");
  host_in_child(dead);
  kill_child();
  host_in_child(live);
  ASSERT_TRUE(host_store(path_of("mine"), soon()).ok());
  EXPECT_FALSE(fs::exists(dead));
  EXPECT_FALSE(fs::exists(dead + ".lock"));
  EXPECT_TRUE(fs::exists(live));
  EXPECT_TRUE(Store::connect("unix:" + live, soon()).ok());
}

TEST_F(HostedStore, GoesWithTheProcess) {
  const std::string path = path_of("a");
  const pid_t child = start_host(path);
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_FALSE(fs::exists(path));
  EXPECT_FALSE(fs::exists(path + ".lock"));
}

TEST_F(HostedStore, AForkedChildServesWithoutTheParentsThreads) {
  if (DW_SANITIZER != DW_SANITIZER_NONE)
    GTEST_SKIP() << "the child would wait for the sanitizer's locks, which "
                    "threads of the parent held";
  const std::string path = path_of("a"), other = path_of("b");
  ASSERT_TRUE(host_store(path, soon()).ok());
  const pid_t child = fork();
  if (child == 0) {
    const bool ok = host_store(other, soon()).ok() &&
                    Store::connect("unix:" + other, soon()).ok();
    exit(ok ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_FALSE(fs::exists(other));
  EXPECT_TRUE(fs::exists(path));
  EXPECT_TRUE(Store::connect("unix:" + path, soon()).ok());
}

TEST_F(HostedStore, WhatIsNotOursStays) {
  const std::string file = folder_ + "/file";
  std::ofstream(file) << "precious";
  expect_blocked(file, "no socket");
  std::string text;
  std::ifstream(file) >> text;
  EXPECT_EQ(text, "precious");

  const std::string folder = folder_ + "/folder";
  fs::create_directory(folder);
  expect_blocked(folder, "no socket");
  fs::create_symlink(file, folder_ + "/link");
  expect_blocked(folder_ + "/link", "no socket");
  expect_blocked(folder_ + "/missing/socket", "cannot be locked");
  // A server that takes no locks.
  const std::string served = folder_ + "/served";
  const auto server = ServerThread::start(served);
  ASSERT_TRUE(server.ok()) << server.status();
  expect_blocked(served, "another program");
  EXPECT_TRUE(fs::exists(served));
}

TEST_F(HostedStore, AnotherUsersSocketStays) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can make one";
  const std::string path = folder_ + "/socket";
  host_in_child(path);
  kill_child();
  ASSERT_EQ(chown(path.c_str(), 65534, 65534), 0);
  expect_blocked(path, "another user");
  EXPECT_TRUE(fs::exists(path));
}

TEST_F(HostedStore, LongPathsGetAShorterNameThenAnError) {
  const std::string name = "ompi-0123456789abcdef-0123456789abcdef";
  const auto in_folder_of = [&](size_t length) {
    const std::string deep =
        folder_ + "/" + std::string(length - folder_.size() - 1, 'x');
    fs::create_directory(deep);
    return meeting_path(
        Environment(Environment::Variables{{"DISTWRAP_RUN_DIR", deep}}), name);
  };
  const auto whole = in_folder_of(40);
  ASSERT_TRUE(whole.ok()) << whole.status();
  EXPECT_EQ(fs::path(*whole).filename(), name);
  const auto cut = in_folder_of(70);
  ASSERT_TRUE(cut.ok()) << cut.status();
  EXPECT_EQ(fs::path(*cut).filename(), "0123456789abcdef");
  const absl::Status status = in_folder_of(100).status();
  EXPECT_EQ(error_reason(status), Reason::kRunDirectory) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("DISTWRAP_RUN_DIR"));
}

Rendezvous place_at(const std::string& path, int rank) {
  return {.rank = rank,
          .world_size = 2,
          .address = "unix:" + path,
          .hosted_path = path,
          .job = "job"};
}

TEST_F(HostedStore, WhoComesLateIsAnsweredAfterTheServersEnd) {
  const std::string path = path_of("a");
  leave_note(place_at(path, 0), "rank 1 is missing");
  const int64_t started = Deadline::now_ns();
  const absl::Status late = meet(place_at(path, 1), soon()).status();
  EXPECT_EQ(error_reason(late), Reason::kRefused) << late;
  EXPECT_THAT(std::string(late.message()), HasSubstr("rank 1 is missing"));
  EXPECT_LT(Deadline::now_ns() - started, 5'000'000'000);
  // A note of an earlier job has no effect.
  std::ofstream(path + ".note") << "1\nlong ago\n";
  EXPECT_EQ(error_reason(
                meet(place_at(path, 1), Deadline::after(absl::Milliseconds(50)))
                    .status()),
            Reason::kStoreUnreachable);
  ASSERT_TRUE(meet(place_at(path, 0), soon()).ok());
  EXPECT_FALSE(fs::exists(path + ".note"));
  EXPECT_TRUE(meet(place_at(path, 1), soon()).ok());
}

TEST_F(HostedStore, WhoLosesTheStoreLearnsWhyRank0Ended) {
  const std::string path = path_of("a");
  host_in_child(path);
  const auto store = meet(place_at(path, 1), soon());
  ASSERT_TRUE(store.ok()) << store.status();
  const pid_t killed = child_;
  kill_child();
  const absl::Status lost = (*store)->set("key", "value", soon());
  ASSERT_EQ(error_reason(lost), Reason::kStoreUnreachable) << lost;
  const absl::Status dead = why_store_is_gone(place_at(path, 1), lost);
  EXPECT_EQ(error_reason(dead), Reason::kStoreUnreachable) << dead;
  EXPECT_THAT(std::string(dead.message()),
              HasSubstr(absl::StrCat("process ", killed)));
  // A rank 0 that gives up leaves a note before it ends.
  leave_note(place_at(path, 0), "ranks were started differently");
  const absl::Status left = why_store_is_gone(place_at(path, 1), lost);
  EXPECT_EQ(error_reason(left), Reason::kRefused) << left;
  EXPECT_THAT(std::string(left.message()),
              HasSubstr("ranks were started differently"));
  // Rank 0's own note tells rank 0 nothing, and the store explains nothing
  // else.
  EXPECT_EQ(why_store_is_gone(place_at(path, 0), lost), lost);
  const absl::Status late = absl::DeadlineExceededError("late");
  EXPECT_EQ(why_store_is_gone(place_at(path, 1), late), late);
}

// A rank without a connection cannot learn it from one.
TEST_F(HostedStore, AKilledServerIsNamedAtOnceToWhoCouldNotReachIt) {
  const std::string path = path_of("a");
  host_in_child(path);
  const pid_t killed = child_;
  kill_child();
  const int64_t started = Deadline::now_ns();
  const absl::Status status = meet(place_at(path, 1), soon()).status();
  EXPECT_LT(Deadline::now_ns() - started, 5'000'000'000);
  EXPECT_EQ(error_reason(status), Reason::kStoreUnreachable) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr(absl::StrCat("process ", killed)));
  EXPECT_THAT(std::string(status.message()), HasSubstr("was killed"));
  // A further attempt waits for the next rank 0.
  const absl::Status again =
      meet(place_at(path, 1), Deadline::after(absl::Milliseconds(50))).status();
  EXPECT_THAT(std::string(again.message()), HasSubstr("no store answers"));
  ASSERT_TRUE(meet(place_at(path, 0), soon()).ok());
  EXPECT_TRUE(meet(place_at(path, 1), soon()).ok());
}

TEST_F(HostedStore, AServerThatLivesOrEndedIsNotCalledDead) {
  const std::string path = path_of("a");
  EXPECT_FALSE(dead_host(path).has_value());
  host_in_child(path);
  EXPECT_FALSE(dead_host(path).has_value());
  kill_child();
  ASSERT_TRUE(dead_host(path).has_value());
  EXPECT_GT(dead_host(path)->since_ns, 0);
  // This process is not dead, either, and must keep its lock.
  ASSERT_TRUE(host_store(path, soon()).ok());
  EXPECT_FALSE(dead_host(path).has_value());
  if (DW_SANITIZER == DW_SANITIZER_NONE) {  // as in AForkedChildServes...
    const pid_t other = fork();
    if (other == 0)
      _exit(host_store(path, Deadline::after(absl::Milliseconds(50))).ok());
    int status = -1;
    ASSERT_EQ(waitpid(other, &status, 0), other);
    EXPECT_EQ(status, 0) << "another process got the lock";
  }
  // Unreadable content is no signature.
  std::ofstream(folder_ + "/odd.lock") << "precious";
  EXPECT_FALSE(dead_host(folder_ + "/odd").has_value());
}

TEST_F(HostedStore, WaitingForRankZeroIsSaidAndEnds) {
  const std::string path = path_of("a");
  ::testing::internal::CaptureStderr();
  const absl::Status status =
      meet(place_at(path, 1), Deadline::after(absl::Milliseconds(400)),
           absl::Milliseconds(100))
          .status();
  const std::string log = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(error_reason(status), Reason::kStoreUnreachable) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(path));
  EXPECT_THAT(std::string(status.message()), HasSubstr("rank 0"));
  EXPECT_THAT(log, HasSubstr("rank 1 waits since"));
}

}  // namespace
}  // namespace distwrap::store
