// Owners of windows that are killed or stopped, in processes of their own.
#include "distwrap/deadline.h"
#include "host_backends.h"
#include "ranks/survivors.h"

#include <absl/strings/str_join.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <signal.h>
#include <string>
#include <vector>

namespace distwrap {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;
using testing::Job;
using testing::line_with;
using ::testing::StartsWith;

// The time that a loaded machine may add.
constexpr absl::Duration kSlack = absl::Seconds(10);

// The arguments of `survivor`.
using Way = std::vector<std::string>;
class KilledWindows : public ::testing::TestWithParam<Way> {};

// A rank that waits for signals, or only puts, gets an error that names the
// dead rank.
TEST_P(KilledWindows, AnOwnerThatIsKilledIsAnErrorOnTheOthers) {
  Job job(3, GetParam(), "600");
  job.wait_until_working();
  const int64_t killed = Deadline::now_ns();
  job.rank(1).signal(SIGKILL);
  EXPECT_EQ(job.rank(1).wait(), 128 + SIGKILL);
  for (const size_t survivor : {0u, 2u}) {
    EXPECT_EQ(job.rank(survivor).wait(), 0);
    EXPECT_LT(absl::Nanoseconds(Deadline::now_ns() - killed), kSlack);
    const std::string& out = job.rank(survivor).out();
    EXPECT_THAT(line_with(out, "error "), StartsWith("error kPeerLost"));
    EXPECT_THAT(line_with(out, "error "), HasSubstr("rank 1"));
    EXPECT_THAT(line_with(out, "again "), HasSubstr("kGroupBroken"));
    EXPECT_THAT(out, HasSubstr("\nalive\n"));
    EXPECT_EQ(job.rank(survivor).err(), "");
  }
}

// No rank waits for ever, not even for a stopped one.
TEST_P(KilledWindows, AnOwnerThatIsStoppedIsHeardOf) {
  Job job(3, GetParam(), "600", "0.4");
  job.wait_until_working();
  job.rank(1).signal(SIGSTOP);
  for (const size_t survivor : {0u, 2u}) {
    EXPECT_EQ(job.rank(survivor).wait(), 0);
    EXPECT_THAT(
        line_with(job.rank(survivor).out(), "error "),
        AnyOf(HasSubstr("a rank has stopped running"), HasSubstr("rank 1")));
  }
  job.rank(1).signal(SIGCONT);
  EXPECT_EQ(job.rank(1).wait(), 0);
  EXPECT_THAT(job.rank(1).out(), HasSubstr("\nalive\n"));
}

INSTANTIATE_TEST_SUITE_P(Ways, KilledWindows,
                         ::testing::ValuesIn(testing::and_ucx<Way>(
                             {Way{"windows"}, Way{"puts"},
                              Way{"windows", "gloo"}, Way{"puts", "gloo"}},
                             {Way{"windows", "ucx"}, Way{"puts", "ucx"}})),
                         [](const auto& test) {
                           return absl::StrJoin(test.param, "_");
                         });

// A wait also ends by its own limit.
TEST(StoppedWindows, AWaitEndsByItsDeadline) {
  Job job(3, {"windows"}, "1");
  job.wait_until_working();
  job.rank(1).signal(SIGSTOP);
  for (const size_t survivor : {2u, 0u}) {
    EXPECT_EQ(job.rank(survivor).wait(), 0);
    EXPECT_THAT(line_with(job.rank(survivor).out(), "error "),
                AnyOf(HasSubstr("kTimedOut"), HasSubstr("kPeerLost"),
                      HasSubstr("kAborted")));
  }
  job.rank(1).signal(SIGCONT);
  EXPECT_EQ(job.rank(1).wait(), 0);
}

}  // namespace
}  // namespace distwrap
