// Ranks that come late, twice or with another world size, and a store whose
// host dies: every affected rank gets a named error, and no other rank is
// harmed.
#include "distwrap/deadline.h"
#include "distwrap/store.h"
#include "store/server_thread.h"
#include "unit/cli/process.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <signal.h>
#include <stdlib.h>
#include <string>
#include <unistd.h>
#include <vector>

namespace distwrap {
namespace {

namespace fs = std::filesystem;
using ::distwrap::cli::Process;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using Variables = std::map<std::string, std::string>;

// The time that a loaded machine may add to "at once".
constexpr absl::Duration kSlack = absl::Seconds(5);
// A deadline that no test reaches.
constexpr char kLong[] = "25";

class StartUp : public ::testing::Test {
 protected:
  StartUp() {
    char path[] = "/tmp/distwrap_test_XXXXXX";
    folder_ = mkdtemp(path);
  }
  ~StartUp() override { fs::remove_all(folder_); }

  // A rank of a job whose rank 0 serves the store.
  std::unique_ptr<Process> start(int rank, int size, Variables more = {},
                                 const std::string& method = "") {
    more.merge(Variables{{"DISTWRAP_RUN_DIR", folder_},
                         {"DISTWRAP_INIT_TIMEOUT", kLong},
                         {"DISTWRAP_TIMEOUT", kLong},
                         {"DISTWRAP_JOB_ID", "faults"},
                         {"DISTWRAP_RANK", std::to_string(rank)},
                         {"DISTWRAP_WORLD_SIZE", std::to_string(size)}});
    std::vector<std::string> words = {PROGRAM, "1"};
    if (!method.empty()) words.push_back(method);
    return std::make_unique<Process>(words, Process::Options{.env = more});
  }
  std::string file(const std::string& name) const {
    return folder_ + "/" + name;
  }
  static void make(const std::string& path) { std::ofstream(path) << ""; }

  // Whether rank 0 serves and rank 1 has sent its setup message there.
  bool is_served() const {
    for (const auto& entry : fs::recursive_directory_iterator(folder_)) {
      if (!entry.is_socket()) continue;
      const auto store = Store::connect("unix:" + entry.path().string(),
                                        Deadline::after(absl::Seconds(1)));
      if (!store.ok()) return false;
      const std::string job = entry.path().filename();
      return (*store)
          ->wait({job + "/session/1/hello/1"},
                 Deadline::after(absl::Seconds(20)))
          .ok();
    }
    return false;
  }

  // The rank ended soon after `since` with these texts.
  void expect_refused(Process& rank, int64_t since,
                      const std::vector<std::string>& parts) {
    EXPECT_EQ(rank.wait(), 3) << rank.out() << rank.err();
    EXPECT_LT(absl::Nanoseconds(Deadline::now_ns() - since), kSlack);
    for (const std::string& part : parts)
      EXPECT_THAT(rank.out(), HasSubstr(part));
    EXPECT_THAT(rank.out(), HasSubstr(". Next: "));
  }

  std::string folder_;
};

TEST_F(StartUp, LateWithinTheDeadlineIsFine) {
  const auto late = start(0, 2, {{"START_FILE", file("start")}});
  ASSERT_TRUE(late->read_until("waiting", 1));
  const auto first = start(1, 2, {{"START_FILE", file("other")}});
  ASSERT_TRUE(first->read_until("waiting", 1));
  make(file("other"));
  // The folder exists once the rank has looked for rank 0.
  const std::string folder = file("distwrap.") + std::to_string(geteuid());
  for (int i = 0; i < 4000 && !fs::exists(folder); ++i) usleep(5000);
  ASSERT_TRUE(fs::exists(folder));
  make(file("start"));
  for (Process* rank : {late.get(), first.get()}) {
    EXPECT_EQ(rank->wait(), 0) << rank->out();
    EXPECT_THAT(rank->out(), HasSubstr("of 2 sum 2"));
  }
}

TEST_F(StartUp, LateIsAnswered) {
  const auto late = start(1, 2, {{"START_FILE", file("start")}});
  ASSERT_TRUE(late->read_until("waiting", 1));
  const auto first = start(0, 2, {{"DISTWRAP_INIT_TIMEOUT", "0.3"}});
  EXPECT_EQ(first->wait(), 3);
  EXPECT_THAT(first->out(), StartsWith("init kTimedOut"));
  EXPECT_THAT(first->out(), HasSubstr("rank 1"));
  const int64_t now = Deadline::now_ns();
  make(file("start"));
  expect_refused(*late, now, {"init kRefused", "too late", "1 of 2 ranks"});
}

TEST_F(StartUp, AnotherWorldSizeIsNamedAtOnce) {
  const auto first = start(0, 2);
  const auto other = start(1, 3);
  const int64_t now = Deadline::now_ns();
  for (Process* rank : {first.get(), other.get()})
    expect_refused(
        *rank, now,
        {"init k", "started differently", "world size 2", "world size 3"});
}

// Rank 0 has ended, and the store with it: its note also contains the sizes.
TEST_F(StartUp, AnotherWorldSizeIsNamedToWhoComesAfterwards) {
  const auto late = start(2, 3, {{"START_FILE", file("start")}});
  ASSERT_TRUE(late->read_until("waiting", 1));
  const auto first = start(0, 3), other = start(1, 4);
  for (Process* rank : {first.get(), other.get()})
    EXPECT_EQ(rank->wait(), 3) << rank->out();
  const int64_t now = Deadline::now_ns();
  make(file("start"));
  expect_refused(
      *late, now,
      {"init kRefused", "started differently", "world size 3", "world size 4"});
}

// A rank that comes while the others leave gets the error as well.
TEST_F(StartUp, ASmallerWorldEndsOnAllRanksAtOnce) {
  const auto first = start(0, 4), second = start(1, 4), other = start(2, 3);
  const int64_t now = Deadline::now_ns();
  for (Process* rank : {first.get(), second.get(), other.get()})
    expect_refused(*rank, now, {"init k", "started differently"});
}

TEST_F(StartUp, ARankThatIsTakenIsRefusedAndHarmsNobody) {
  const Variables held = {{"GO_FILE", file("go")}};
  const auto first = start(0, 2, held), second = start(1, 2, held);
  for (Process* rank : {first.get(), second.get()})
    ASSERT_TRUE(rank->read_until("started", 1)) << rank->out();
  int64_t now = Deadline::now_ns();
  expect_refused(*start(1, 2), now,
                 {"init kRefused", "process " + std::to_string(second->pid())});
  now = Deadline::now_ns();
  expect_refused(
      *start(0, 2), now,
      {"init kStoreUnreachable", "process " + std::to_string(first->pid())});
  make(file("go"));
  for (Process* rank : {first.get(), second.get()})
    EXPECT_EQ(rank->wait(), 0) << rank->out();
}

TEST_F(StartUp, TheStoresHostDiesWhileRanksMeet) {
  const auto host = start(0, 3), other = start(1, 3);
  for (int i = 0; i < 4000 && !is_served(); ++i) usleep(5000);
  ASSERT_TRUE(is_served());
  const int64_t now = Deadline::now_ns();
  host->signal(SIGKILL);
  expect_refused(*other, now, {"init kStoreUnreachable", "rank 0"});
}

TEST_F(StartUp, TheStoresHostDiesWhileRanksWork) {
  const Variables held = {{"GO_FILE", file("go")}};
  std::vector<std::unique_ptr<Process>> ranks;
  for (int rank = 0; rank < 3; ++rank) ranks.push_back(start(rank, 3, held));
  for (const auto& rank : ranks)
    ASSERT_TRUE(rank->read_until("started", 1)) << rank->out();
  ranks[0]->signal(SIGKILL);
  EXPECT_EQ(ranks[0]->wait(), 128 + SIGKILL);
  const int64_t now = Deadline::now_ns();
  make(file("go"));
  for (const size_t survivor : {1u, 2u})
    expect_refused(*ranks[survivor], now, {"all_reduce k"});
}

// Running groups do not need the store.
TEST_F(StartUp, RunningGroupsOutliveTheStore) {
  auto server = store::ServerThread::start(file("store"));
  ASSERT_TRUE(server.ok()) << server.status();
  const Variables held = {{"GO_FILE", file("go")},
                          {"DISTWRAP_STORE", (*server)->address()}};
  const auto first = start(0, 2, held), second = start(1, 2, held);
  for (Process* rank : {first.get(), second.get()})
    ASSERT_TRUE(rank->read_until("started", 1)) << rank->out();
  server->reset();
  make(file("go"));
  for (Process* rank : {first.get(), second.get()}) {
    EXPECT_EQ(rank->wait(), 0) << rank->out();
    EXPECT_THAT(rank->out(), HasSubstr("of 2 sum 2"));
  }
}

TEST_F(StartUp, APlaceThatIsAFileIsNamedAndStays) {
  make(file("precious"));
  const int64_t now = Deadline::now_ns();
  expect_refused(*start(0, 2, {}, "unix:" + file("precious")), now,
                 {"init kRunDirectory", file("precious"), "no socket"});
  EXPECT_TRUE(fs::is_regular_file(file("precious")));
}

TEST_F(StartUp, InitMethodsReallyMeet) {
  for (const std::string& method :
       {std::string("tcp://localhost:29500"), "file://" + file("name"),
        "unix:" + file("socket"), "unix:/" + std::string(200, 'x')}) {
    const auto first = start(0, 2, {}, method),
               second = start(1, 2, {}, method);
    for (Process* rank : {first.get(), second.get()}) {
      EXPECT_EQ(rank->wait(), 0) << method << rank->out();
      EXPECT_THAT(rank->out(), HasSubstr("of 2 sum 2"));
    }
  }
  EXPECT_FALSE(fs::exists(file("name")));
  EXPECT_FALSE(fs::exists(file("socket")));
}

}  // namespace
}  // namespace distwrap
