// The process that serves the store is killed at any moment of start-up, or
// something else takes its place.
#include "distwrap/deadline.h"
#include "distwrap/status.h"
#include "ranks/startup_campaign.h"
#include "unit/cli/process.h"

#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <signal.h>
#include <stdlib.h>
#include <string>
#include <sys/socket.h>
#include <sys/un.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace distwrap::testing {
namespace {

namespace fs = std::filesystem;
using ::distwrap::cli::Process;
using ::testing::AnyOf;
using ::testing::HasSubstr;

class Folder {
 public:
  Folder() {
    char path[] = "/tmp/distwrap_test_XXXXXX";
    path_ = mkdtemp(path);
  }
  ~Folder() { fs::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  std::string file(const std::string& name) const { return path_ + "/" + name; }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

struct End {
  int code = -1;
  int64_t at_ns = 0;
};

// The ends of all ranks except 0; a rank that waits until its deadline does not
// delay the times of others.
std::vector<End> ends_of(const std::vector<std::unique_ptr<Process>>& ranks) {
  std::vector<End> ends(ranks.size());
  std::vector<std::thread> waits;
  for (size_t rank = 1; rank < ranks.size(); ++rank)
    waits.emplace_back([&process = *ranks[rank], &end = ends[rank]] {
      end = {process.wait(), Deadline::now_ns()};
    });
  for (std::thread& wait : waits) wait.join();
  return ends;
}

// Whether a rank 0 took a place in the folder and was killed there.
bool somebody_came(const std::string& folder) {
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    if (entry.path().extension() == ".lock" && fs::file_size(entry) > 0)
      return true;
  return false;
}

void kill_the_host(int tries) {
  Campaign campaign("rank 0 killed", tries);
  while (campaign.next()) {
    const Folder folder;
    const std::string start = folder.file("start");
    const int size = 2 + campaign.pick(2);
    const std::string method = std::vector<std::string>{
        "env://", "tcp://localhost:29500", "tcp://127.0.0.1:29501",
        "unix:" + folder.file("meet")}[static_cast<size_t>(campaign.pick(4))];
    std::vector<std::unique_ptr<Process>> ranks;
    for (int rank = 0; rank < size; ++rank)
      ranks.push_back(std::make_unique<Process>(
          std::vector<std::string>{PROGRAM, "1", method},
          Process::Options{
              .env = {{"DISTWRAP_RUN_DIR", folder.path()},
                      {"DISTWRAP_INIT_TIMEOUT", "10"},
                      {"START_FILE", start},
                      {"DISTWRAP_TIMEOUT", "20"},
                      {"DISTWRAP_JOB_ID", "deaths"},
                      {"MASTER_ADDR", "localhost"},
                      {"MASTER_PORT", "29502"},
                      {"DISTWRAP_RANK", absl::StrCat(rank)},
                      {"DISTWRAP_WORLD_SIZE", absl::StrCat(size)}}}));
    for (const auto& rank : ranks) ASSERT_TRUE(rank->read_until("waiting", 1));
    std::ofstream(start) << "";
    const int life_us = campaign.pick(120'000);
    SCOPED_TRACE(
        campaign.told(absl::StrCat("rank 0 of ", size, " over ", method,
                                   " is killed after ", life_us, " us")));
    usleep(static_cast<useconds_t>(life_us));
    ranks[0]->signal(SIGKILL);
    const int64_t killed_ns = Deadline::now_ns();
    const bool survived = ranks[0]->wait() == 0;
    const std::vector<End> ends = ends_of(ranks);
    for (size_t rank = 1; rank < ranks.size(); ++rank) {
      Process& other = *ranks[rank];
      const auto [code, ended_ns] = ends[rank];
      const std::string said = other.out() + other.err();
      if (code == 0) {
        EXPECT_THAT(said, HasSubstr(absl::StrCat("of ", size, " sum ", size)));
        continue;
      }
      EXPECT_EQ(code, 3) << said;
      EXPECT_THAT(other.out(),
                  AnyOf(HasSubstr("init k"), HasSubstr("all_reduce k")));
      EXPECT_THAT(said, HasSubstr("Next: "));
      EXPECT_FALSE(survived) << said;
      // Killed before it came, which only the deadline shows.
      if (absl::StrContains(said, "no store answers") &&
          !somebody_came(folder.path())) {
        EXPECT_THAT(said, HasSubstr("rank 0"));
        continue;
      }
      const absl::Duration took = absl::Nanoseconds(ended_ns - killed_ns);
      EXPECT_LT(took, kLoaded) << said;
      campaign.learnt(took);
    }
  }
}

TEST(StartUpCampaign, TheHostIsKilled) { kill_the_host(4); }
TEST(StartUpCampaign, DISABLED_TheHostIsKilled) { kill_the_host(60); }

// A socket at the path that is no store: silent, or closing at once.
class Stranger {
 public:
  Stranger(const std::string& path, bool silent)
      : fd_(socket(AF_UNIX, SOCK_STREAM, 0)) {
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof address.sun_path - 1);
    EXPECT_EQ(bind(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address),
              0);
    EXPECT_EQ(listen(fd_, 64), 0);
    if (silent) return;
    thread_ = std::thread([this] {
      for (int client; (client = accept(fd_, nullptr, nullptr)) >= 0;)
        close(client);
    });
  }
  ~Stranger() {
    shutdown(fd_, SHUT_RDWR);
    if (thread_.joinable()) thread_.join();
    close(fd_);
  }
  Stranger(const Stranger&) = delete;
  Stranger& operator=(const Stranger&) = delete;

 private:
  const int fd_;
  std::thread thread_;
};

void take_the_place(int tries) {
  Campaign campaign("place taken", tries);
  while (campaign.next()) {
    const Folder folder;
    const std::string path = folder.file("meet");
    const int size = 2 + campaign.pick(3), kind = campaign.pick(3);
    std::unique_ptr<Stranger> stranger;
    if (kind == 0)
      std::ofstream(path) << "precious";
    else
      stranger = std::make_unique<Stranger>(path, kind == 1);
    std::vector<RankStart> ranks(static_cast<size_t>(size));
    for (int rank = 0; rank < size; ++rank)
      ranks[static_cast<size_t>(rank)] = {
          .options = {.backend = "gloo",
                      .rank = rank,
                      .world_size = size,
                      .init_method = "unix:" + path,
                      .init_timeout = absl::Seconds(25)},
          .delay = absl::Milliseconds(campaign.pick(100))};
    SCOPED_TRACE(campaign.told(
        absl::StrCat(size, " ranks, ", kind == 0 ? "a file" : "a socket",
                     " of kind ", kind, " is in the place")));
    const std::vector<RankEnd> ends = run_try(ranks);
    for (size_t rank = 0; rank < ends.size(); ++rank) {
      const RankEnd& end = ends[rank];
      const absl::Duration took = absl::Nanoseconds(
          end.ended_ns - std::max(end.came_ns, ends[0].ended_ns));
      EXPECT_LT(took, kLoaded) << end.init;
      campaign.learnt(took);
      const std::string said(end.init.message());
      const Reason reason = error_reason(end.init);
      if (rank == 0) {
        EXPECT_EQ(reason, Reason::kRunDirectory) << end.init;
      } else if (reason == Reason::kRefused) {
        EXPECT_THAT(said, HasSubstr("rank 0 gave up"));
      } else {
        EXPECT_EQ(reason, Reason::kStoreUnreachable) << end.init;
      }
      EXPECT_THAT(said, HasSubstr(path));
    }
    EXPECT_TRUE(fs::exists(path)) << "it was not ours to remove";
  }
}

TEST(StartUpCampaign, ThePlaceIsTaken) { take_the_place(10); }
TEST(StartUpCampaign, DISABLED_ThePlaceIsTaken) { take_the_place(60); }

}  // namespace
}  // namespace distwrap::testing
