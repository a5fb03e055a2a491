// Killed and stopped processes: every survivor gets one error with group,
// operation and sequence number, in time, and lives on.
#include "base/settings.h"
#include "distwrap/deadline.h"
#include "ranks/survivors.h"
#include "store/run_directory.h"
#include "store/server_thread.h"
#include "unit/cli/debugger.h"
#include "unit/cli/process.h"

#include <absl/time/clock.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <random>
#include <signal.h>
#include <string>
#include <unistd.h>
#include <vector>

namespace distwrap {
namespace {

using ::distwrap::cli::Process;
using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using testing::Job;
using testing::line_with;
using ::testing::Not;
using ::testing::StartsWith;

// The time that a loaded machine may add to "deadline + 100 ms".
constexpr absl::Duration kSlack = absl::Seconds(5);

struct Way {
  const char* operation;
  const char* named;  // rank in the error; either of two for the ring
  bool async;
};

class Processes : public ::testing::TestWithParam<Way> {
 protected:
  std::vector<std::string> arguments() const {
    if (GetParam().async) return {GetParam().operation, "async"};
    return {GetParam().operation};
  }

  void expect_one_clear_error(Process& survivor) {
    const std::string error = line_with(survivor.out(), "error ");
    EXPECT_THAT(error, HasSubstr(GetParam().named)) << survivor.out();
    EXPECT_THAT(error, HasSubstr("on \"world\" (rank "));
    EXPECT_THAT(error, HasSubstr(". Next: "));
    EXPECT_THAT(line_with(survivor.out(), "again "),
                StartsWith("again kGroupBroken"));
    EXPECT_THAT(survivor.out(), HasSubstr("\nalive\n"));
    EXPECT_EQ(survivor.err(), "") << "a library prints nothing of an error "
                                     "that it returns";
  }
};

TEST_P(Processes, AKilledRankIsAnErrorOnAllOthers) {
  Job job(3, arguments(), "60");
  job.wait_until_working();
  const int64_t killed = Deadline::now_ns();
  job.rank(1).signal(SIGKILL);
  for (const size_t survivor : {0u, 2u}) {
    EXPECT_EQ(job.rank(survivor).wait(), 0);
    EXPECT_LT(absl::Nanoseconds(Deadline::now_ns() - killed), kSlack);
    expect_one_clear_error(job.rank(survivor));
    EXPECT_THAT(
        line_with(job.rank(survivor).out(), "error "),
        AnyOf(StartsWith("error kPeerLost"), StartsWith("error kAborted")));
  }
  EXPECT_EQ(job.rank(1).wait(), 128 + SIGKILL);
}

TEST(ProcessesWithHooks, ARefusalIsAnErrorOnAllRanks) {
  Job job(3, {"all_reduce", "refused"}, "60");
  for (size_t r = 0; r < job.size(); ++r) {
    EXPECT_EQ(job.rank(r).wait(), 0);
    const std::string error = line_with(job.rank(r).out(), "error ");
    EXPECT_THAT(error, HasSubstr("a hook refused the call: not on my watch"));
    EXPECT_THAT(error, HasSubstr(r == 1 ? "error kAborted" : "rank 1"));
    EXPECT_THAT(job.rank(r).out(), HasSubstr("\nalive\n"));
  }
}

// Rank 1 has sent its tokens, and is killed before it takes those of others.
TEST(ProcessesWithExperts, ARankKilledBetweenStartAndFinishIsNamed) {
  Job job(3, {"moe"}, "60");
  job.wait_until_working();
  const int64_t killed = Deadline::now_ns();
  job.rank(1).signal(SIGKILL);
  for (const size_t survivor : {0u, 2u}) {
    EXPECT_EQ(job.rank(survivor).wait(), 0);
    EXPECT_LT(absl::Nanoseconds(Deadline::now_ns() - killed), kSlack);
    const std::string error = line_with(job.rank(survivor).out(), "error ");
    EXPECT_THAT(error, StartsWith("error kPeerLost"));
    EXPECT_THAT(error, AllOf(HasSubstr("moe_dispatch_start"),
                             HasSubstr("rank 1"), HasSubstr("process ")));
    EXPECT_THAT(job.rank(survivor).out(), HasSubstr("\nalive\n"));
  }
  EXPECT_EQ(job.rank(1).wait(), 128 + SIGKILL);
}

// A redistribution of two steps, over shared memory and over Gloo: also ranks
// that share no group of the first step with the one that is gone hear of it.
class ProcessesWithMeshes : public ::testing::TestWithParam<const char*> {
 protected:
  template <class Matcher>
  void expect_error(Process& survivor, const Matcher& matcher) {
    const std::string error = line_with(survivor.out(), "error ");
    EXPECT_THAT(error, matcher);
    EXPECT_THAT(error, HasSubstr("redistribute (P(sum),S(0))->(S(0),S(0)) "));
    EXPECT_THAT(error, HasSubstr(". Next: "));
    EXPECT_THAT(survivor.out(), HasSubstr("\nalive\n"));
    EXPECT_EQ(survivor.err(), "");
  }
};

TEST_P(ProcessesWithMeshes, ARankKilledInAStepIsNamed) {
  std::mt19937 random(9);
  for (int i = 0; i < 4; ++i) {
    Job job(4, {"redistribute", GetParam()}, "60");
    job.wait_until_working();
    absl::SleepFor(absl::Microseconds(random() % 3000));
    const int64_t killed = Deadline::now_ns();
    job.rank(3).signal(SIGKILL);
    for (const size_t survivor : {0u, 1u, 2u}) {
      EXPECT_EQ(job.rank(survivor).wait(), 0);
      EXPECT_LT(absl::Nanoseconds(Deadline::now_ns() - killed), kSlack);
      expect_error(job.rank(survivor), StartsWith("error kPeerLost"));
    }
    EXPECT_EQ(job.rank(3).wait(), 128 + SIGKILL);
  }
}

TEST_P(ProcessesWithMeshes, ARankStoppedInAStepIsAnErrorAtTheDeadline) {
  Job job(4, {"redistribute", GetParam()}, "1");
  job.wait_until_working();
  const int64_t stopped = Deadline::now_ns();
  job.rank(3).signal(SIGSTOP);
  for (const size_t survivor : {0u, 1u, 2u}) {
    EXPECT_EQ(job.rank(survivor).wait(), 0);
    EXPECT_LT(absl::Nanoseconds(Deadline::now_ns() - stopped),
              absl::Milliseconds(1100) + kSlack);
    // The first that gives up tells the others why.
    expect_error(
        job.rank(survivor),
        AllOf(HasSubstr("kTimedOut"), AnyOf(StartsWith("error kTimedOut"),
                                            StartsWith("error kAborted"))));
  }
  job.rank(3).signal(SIGKILL);
  EXPECT_EQ(job.rank(3).wait(), 128 + SIGKILL);
}

INSTANTIATE_TEST_SUITE_P(Backends, ProcessesWithMeshes,
                         ::testing::Values("shm", "gloo"),
                         [](const auto& test) {
                           return std::string(test.param);
                         });

TEST_P(Processes, AStoppedRankIsAnErrorAtTheDeadline) {
  Job job(3, arguments(), "1");
  job.wait_until_working();
  const int64_t stopped = Deadline::now_ns();
  job.rank(1).signal(SIGSTOP);
  for (const size_t survivor : {0u, 2u}) {
    EXPECT_EQ(job.rank(survivor).wait(), 0);
    EXPECT_LT(absl::Nanoseconds(Deadline::now_ns() - stopped),
              absl::Milliseconds(1100) + kSlack);
    expect_one_clear_error(job.rank(survivor));
    if (std::string(GetParam().operation) != "ring") {
      EXPECT_THAT(line_with(job.rank(survivor).out(), "error "),
                  HasSubstr(std::string(GetParam().named) + " #"));
    }
  }
  // The stopped rank gets the error when it goes on.
  job.rank(1).signal(SIGCONT);
  EXPECT_EQ(job.rank(1).wait(), 0);
  expect_one_clear_error(job.rank(1));
}

INSTANTIATE_TEST_SUITE_P(
    Operations, Processes,
    ::testing::Values(Way{"barrier", "barrier", false},
                      Way{"broadcast", "broadcast", false},
                      Way{"all_reduce", "all_reduce", false},
                      Way{"all_reduce", "all_reduce", true},
                      Way{"all_gather", "all_gather", false},
                      Way{"reduce_scatter", "reduce_scatter", false},
                      Way{"all_to_all", "all_to_all", true},
                      Way{"prepared", "all_to_all", false},
                      Way{"prepared", "all_to_all", true},
                      Way{"ring", "on", false}),
    [](const auto& test) {
      return std::string(test.param.operation) +
             (test.param.async ? "_async" : "");
    });

// No rank waits for the rank that goes, so only the board can report it.

void expect_lost(Job& job, const std::string& how) {
  for (const size_t survivor : {0u, 2u, 3u}) {
    EXPECT_EQ(job.rank(survivor).wait(), 0);
    const std::string error = line_with(job.rank(survivor).out(), "error ");
    EXPECT_THAT(error, StartsWith("error kPeerLost")) << survivor;
    EXPECT_THAT(error, AllOf(HasSubstr(how), HasSubstr("rank 1"),
                             HasSubstr("process ")));
    EXPECT_THAT(job.rank(survivor).out(), HasSubstr("\nalive\n"));
  }
}

class Neighbours : public ::testing::TestWithParam<const char*> {};

TEST_P(Neighbours, HearOfOneThatWasKilled) {
  Job job(4, {"silence", GetParam()}, "600");
  job.wait_until_working();
  const int64_t killed = Deadline::now_ns();
  job.rank(1).signal(SIGKILL);
  expect_lost(job, "a rank has ended");
  EXPECT_LT(absl::Nanoseconds(Deadline::now_ns() - killed), kSlack);
}

INSTANTIATE_TEST_SUITE_P(Ways, Neighbours, ::testing::Values("alone", "child"),
                         [](const auto& test) {
                           return std::string(test.param);
                         });

TEST(ANeighbour, ThatWasStoppedIsHeardOf) {
  Job job(4, {"silence"}, "600", "0.4");
  job.wait_until_working();
  const int64_t stopped = Deadline::now_ns();
  job.rank(1).signal(SIGSTOP);
  expect_lost(job, "a rank has stopped running");
  EXPECT_LT(absl::Nanoseconds(Deadline::now_ns() - stopped),
            absl::Milliseconds(400) + kSlack);
  job.rank(1).signal(SIGCONT);
  EXPECT_EQ(job.rank(1).wait(), 0);
  EXPECT_THAT(line_with(job.rank(1).out(), "error "),
              HasSubstr("on \"world\""));
}

// A debugger leaves a rank that stays stopped: the others wait a heartbeat from
// then on, or half of one after a short stay, and judge nothing at once.
TEST(ANeighbour, ThatADebuggerLeavesHasTimeForABeat) {
  for (const int held_ms : {400, 1500, 1700}) {
    Job job(2, {"all_reduce"}, "600", "1");
    job.wait_until_working();
    int64_t left = 0;
    {
      const cli::Debugger debugger(job.rank(1).pid());
      if (!debugger.holds())
        GTEST_SKIP() << "this system lets no process trace its child";
      absl::SleepFor(absl::Milliseconds(held_ms));
      job.rank(1).signal(SIGSTOP);
      left = Deadline::now_ns();
    }
    EXPECT_EQ(job.rank(0).wait(), 0);
    const absl::Duration waited = absl::Nanoseconds(Deadline::now_ns() - left);
    EXPECT_GT(waited, absl::Milliseconds(held_ms < 500 ? 550 : 800)) << held_ms;
    EXPECT_THAT(line_with(job.rank(0).out(), "error "),
                HasSubstr("stopped running"));
    job.rank(1).signal(SIGKILL);
    EXPECT_EQ(job.rank(1).wait(), 128 + SIGKILL);
  }
}

// A rank that a debugger holds for five heartbeats is waited for: all ranks go
// on together afterwards, and hear of its death, which comes then, and not of
// its silence.
TEST(ANeighbour, ThatADebuggerHoldsIsNotLost) {
  Job job(4, {"all_reduce", "waits"}, "600", "0.2", "0.8");
  job.wait_until_working();
  {
    const cli::Debugger debugger(job.rank(1).pid());
    if (!debugger.holds())
      GTEST_SKIP() << "this system lets no process trace its child";
    absl::SleepFor(absl::Seconds(1));
    for (const size_t waiting : {0u, 2u, 3u})
      ASSERT_TRUE(job.rank(waiting).read_until("waits for 1\n", 1));
  }
  for (const size_t waiting : {0u, 2u, 3u})
    ASSERT_TRUE(job.rank(waiting).read_until("goes on\n", 1))
        << job.rank(waiting).out();
  job.rank(1).signal(SIGKILL);
  for (const size_t survivor : {0u, 2u, 3u}) {
    EXPECT_EQ(job.rank(survivor).wait(), 0);
    EXPECT_THAT(line_with(job.rank(survivor).out(), "error "),
                AllOf(AnyOf(StartsWith("error kPeerLost"),
                            StartsWith("error kAborted")),
                      Not(HasSubstr("stopped running"))));
  }
}

size_t times(const std::string& text, const std::string& part) {
  size_t n = 0;
  for (size_t at = 0; (at = text.find(part, at)) != std::string::npos; ++at)
    ++n;
  return n;
}

// One line from all ranks together, each time the group is stuck.
TEST(AStraggler, IsSaidOnceAndAgainWhenTheGroupHasGoneOn) {
  Job job(4, {"all_reduce", "waits"}, "600", "600", "2");
  job.wait_until_working();
  for (int round = 1; round <= 2; ++round) {
    job.rank(1).signal(SIGSTOP);
    for (const size_t waiting : {0u, 2u, 3u})
      ASSERT_TRUE(job.rank(waiting).read_until("waits for 1\n", round))
          << job.rank(waiting).out();
    job.rank(1).signal(SIGCONT);
    for (const size_t waiting : {0u, 2u, 3u})
      ASSERT_TRUE(job.rank(waiting).read_until("goes on\n", round));
  }
  // Killed where the others cannot fail to notice.
  job.rank(1).signal(SIGKILL);
  std::string said;
  for (const size_t waiting : {0u, 2u, 3u}) {
    EXPECT_EQ(job.rank(waiting).wait(), 0);
    said += job.rank(waiting).err();
  }
  EXPECT_EQ(times(said, "\n"), 2u) << said;
  EXPECT_EQ(times(said, "warning: \"world\": all_reduce f32 x 65536 max #"), 2u)
      << said;
  EXPECT_EQ(times(said, "; rank 1 (process " +
                            std::to_string(job.rank(1).pid()) + " on "),
            2u)
      << said;
}

// At the deadline the error contains the same facts.
TEST(AStraggler, IsInTheErrorOfThoseThatHaveWaited) {
  Job job(3, {"barrier"}, "2", "600");
  job.wait_until_working();
  job.rank(1).signal(SIGSTOP);
  for (const size_t waiting : {0u, 2u}) {
    EXPECT_EQ(job.rank(waiting).wait(), 0);
    EXPECT_THAT(line_with(job.rank(waiting).out(), "error "),
                AllOf(AnyOf(HasSubstr("kTimedOut"), HasSubstr("kAborted")),
                      HasSubstr("; rank 1 (process " +
                                std::to_string(job.rank(1).pid()) + " on "),
                      HasSubstr(" and has not run for ")));
    EXPECT_EQ(job.rank(waiting).err(), "");
  }
}

// The job as `distwrap info --live` shows it.
std::string live(const std::vector<std::string>& more, int code = 0) {
  std::vector<std::string> argv = {DISTWRAP, "info", "--live"};
  argv.insert(argv.end(), more.begin(), more.end());
  Process info(argv, {});
  EXPECT_EQ(info.wait(), code) << info.out() << info.err();
  return code == 0 ? info.out() : info.err();
}

// Repeats until the expected text appears, since signals take time.
template <class Matcher>
std::string live_until(const std::vector<std::string>& more,
                       const Matcher& shows) {
  const Deadline patience = Deadline::after(absl::Seconds(60));
  for (;;) {
    std::string text = live(more);
    if (::testing::Matches(shows)(text)) return text;
    if (patience.passed()) {
      EXPECT_THAT(text, shows);
      return text;
    }
  }
}

TEST(Live, ShowsAJobUntilNothingOfItIsLeft) {
  Job job(3, {"barrier"}, "600", "600");
  job.wait_until_working();
  std::vector<std::string> pids;
  for (size_t rank = 0; rank < 3; ++rank)
    pids.push_back(std::to_string(job.rank(rank).pid()));
  const auto row = [&](size_t rank, const std::string& state) {
    return ::testing::ContainsRegex("  " + std::to_string(rank) + " +" +
                                    pids[rank] + " +[^ \n]+ +" + state +
                                    "( +block)?\n");  // with a door
  };
  const std::string working = live_until(
      {"--job", pids[2]},
      AllOf(StartsWith("job "), HasSubstr(": 3 of 3 ranks on this host"),
            row(0, "runs"), row(1, "runs"), row(2, "runs"),
            HasSubstr("world (3 ranks)\n"), HasSubstr(" barrier #")));
  const std::string id = working.substr(4, 16);
  for (const size_t stopped : {0u, 2u}) job.rank(stopped).signal(SIGSTOP);
  live_until({"--job", id}, AllOf(row(0, "stopped"), row(2, "stopped")));
  job.rank(1).signal(SIGKILL);
  job.rank(1).wait();
  live_until({"--once", "--job", id},
             AllOf(row(0, "stopped"), row(1, "ended"), row(2, "stopped"),
                   HasSubstr("world (3 ranks)")));
  EXPECT_THAT(live({"--json", "--job", pids[0]}),
              AllOf(HasSubstr("\"job\": \"" + id + "\""),
                    HasSubstr("\"state\": \"ended\""),
                    HasSubstr("\"name\": \"world\"")));
  // The process that started the ranks, this test, also names the job.
  EXPECT_THAT(live({"--job", std::to_string(getpid())}), HasSubstr(id));
  for (const size_t rank : {0u, 2u}) {
    job.rank(rank).signal(SIGKILL);
    job.rank(rank).wait();
  }
  EXPECT_THAT(live({"--job", id}, 1), HasSubstr("has the id " + id));
}

TEST(Live, WrongWordsAreRefused) {
  EXPECT_THAT(live({"--job", "soon"}, 1), HasSubstr("'soon' is neither"));
  EXPECT_THAT(live({"--errors"}, 2), HasSubstr("give one of "));
  EXPECT_THAT(live({"--markdown"}, 2), HasSubstr("--markdown goes with"));
  Process once({DISTWRAP, "info", "--once"}, {});
  EXPECT_EQ(once.wait(), 2);
  EXPECT_THAT(once.err(), HasSubstr("--job and --once go with --live"));
}

TEST(Start, ARankThatNeverComesIsNamed) {
  store::RunDirectory directory =
      *store::RunDirectory::make(base::Environment::of_process());
  const auto server = *store::ServerThread::start(directory.path() + "/store");
  Process lonely({SURVIVOR, "barrier"},
                 {.env = {{"DISTWRAP_RANK", "0"},
                          {"DISTWRAP_WORLD_SIZE", "2"},
                          {"DISTWRAP_STORE", server->address()},
                          {"DISTWRAP_INIT_TIMEOUT", "0.3"}}});
  EXPECT_EQ(lonely.wait(), 3);
  EXPECT_THAT(lonely.out(), StartsWith("init kTimedOut"));
  EXPECT_THAT(lonely.out(), HasSubstr("rank 1"));
}

TEST(Start, AStoreThatIsNotThereIsNamed) {
  Process lonely(
      {SURVIVOR, "barrier"},
      {.env = {{"DISTWRAP_RANK", "0"},
               {"DISTWRAP_WORLD_SIZE", "2"},
               {"DISTWRAP_STORE", "unix:/tmp/no-such-distwrap/store"},
               {"DISTWRAP_INIT_TIMEOUT", "0.3"}}});
  EXPECT_EQ(lonely.wait(), 3);
  EXPECT_THAT(lonely.out(), StartsWith("init kStoreUnreachable"));
  EXPECT_THAT(lonely.out(), HasSubstr("/tmp/no-such-distwrap/store"));
}

}  // namespace
}  // namespace distwrap
