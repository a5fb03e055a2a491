// Ranks that make and end groups over shared memory, and are killed at any
// moment.
#include "distwrap/deadline.h"
#include "ranks/survivors.h"

#include <absl/time/clock.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <set>
#include <signal.h>
#include <string>

namespace distwrap {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;
using testing::Job;
using testing::line_with;
using ::testing::StartsWith;

// The time that a loaded machine may add.
constexpr absl::Duration kSlack = absl::Seconds(10);

// With a store where ranks tell each other why a call has failed, or without.
class KilledGroups : public ::testing::TestWithParam<bool> {};

TEST_P(KilledGroups, ARankThatIsKilledInASplitIsAnErrorOnTheOthers) {
  std::mt19937 random(5);
  for (int i = 0; i < 8; ++i) {
    const size_t victim = random() % 3;
    Job job(3, {"groups"}, "60");
    job.wait_until_working();
    if (!GetParam()) job.end_store();
    absl::SleepFor(absl::Microseconds(random() % 3000));
    job.rank(victim).signal(SIGKILL);
    const int64_t killed = Deadline::now_ns();
    EXPECT_EQ(job.rank(victim).wait(), 128 + SIGKILL);
    for (size_t survivor = 0; survivor < 3; ++survivor) {
      if (survivor == victim) continue;
      EXPECT_EQ(job.rank(survivor).wait(), 0);
      EXPECT_LT(absl::Nanoseconds(Deadline::now_ns() - killed), kSlack);
      const std::string& out = job.rank(survivor).out();
      EXPECT_THAT(
          line_with(out, "error "),
          AnyOf(StartsWith("error kPeerLost"), StartsWith("error kAborted"),
                StartsWith("error kGroupClosed")));
      EXPECT_THAT(out, HasSubstr("\nalive\n"));
      EXPECT_EQ(job.rank(survivor).err(), "");
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Stores, KilledGroups, ::testing::Bool(),
                         [](const auto& test) {
                           return test.param ? "Store" : "NoStore";
                         });

// A folder for temporary files of this test only.
class Temporary {
 public:
  Temporary() {
    char path[] = "/tmp/killed-groups-XXXXXX";
    path_ = mkdtemp(path);
    for (const char* const name : {"TMPDIR", "XDG_RUNTIME_DIR"})
      setenv(name, path_.c_str(), 1);
  }
  ~Temporary() { std::filesystem::remove_all(path_); }
  Temporary(const Temporary&) = delete;
  Temporary& operator=(const Temporary&) = delete;

  // The files in this folder and in the folder of shared memory.
  std::set<std::string> names() const {
    std::set<std::string> found;
    std::error_code none;
    for (const std::string& folder : {path_, std::string("/dev/shm")})
      for (const auto& entry :
           std::filesystem::directory_iterator(folder, none))
        if (folder == path_ ||
            entry.path().string().find("distwrap") != std::string::npos)
          found.insert(entry.path().string());
    return found;
  }

 private:
  std::string path_;
};

int64_t shared_memory_kib() {
  std::ifstream in("/proc/meminfo");
  std::string word;
  int64_t kib = 0;
  while (in >> word)
    if (word == "Shmem:" && in >> kib) return kib;
  return 0;
}

void kill_all(int times) {
  // Less than the large staging that three ranks hold in each try.
  constexpr int64_t kHeldKib = 1 << 10;
  const Temporary temporary;
  // A rank that sees another one die first saves a recording on purpose.
  setenv("DISTWRAP_RECORDER", "0", 1);
  std::mt19937 random(7);
  const std::set<std::string> before = temporary.names();
  const int64_t shared = shared_memory_kib();
  for (int i = 0; i < times; ++i) {
    Job job(3, {"groups"}, "60");
    job.wait_until_working();
    absl::SleepFor(absl::Microseconds(random() % 3000));
    for (size_t rank = 0; rank < 3; ++rank) job.rank(rank).signal(SIGKILL);
    for (size_t rank = 0; rank < 3; ++rank)
      EXPECT_EQ(job.rank(rank).wait(), 128 + SIGKILL);
  }
  EXPECT_EQ(temporary.names(), before);
  // A small number of tries is hidden by other programs' memory.
  if (times < 100) return;
  const Deadline end = Deadline::after(kSlack);
  const int64_t most = shared + kHeldKib * times;
  while (shared_memory_kib() > most && !end.passed())
    absl::SleepFor(absl::Milliseconds(20));
  EXPECT_LE(shared_memory_kib(), most);
}

TEST(KilledJobs, NothingIsLeftOfRanksThatAreKilled) { kill_all(8); }
TEST(KilledJobs, DISABLED_NothingIsLeftOfTwoHundredJobs) { kill_all(200); }

}  // namespace
}  // namespace distwrap
