// `distwrap run` with real processes.
#include "distwrap/deadline.h"
#include "process.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_split.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sched.h>
#include <signal.h>
#include <sstream>
#include <stdlib.h>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

namespace distwrap::cli {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::UnorderedElementsAre;

using Words = std::vector<std::string>;

class Run : public ::testing::Test {
 protected:
  Run() {
    char path[] = "/tmp/distwrap_test_XXXXXX";
    folder_ = mkdtemp(path);
    fs::create_directory(folder_ + "/run");
    options_.env["DISTWRAP_RUN_DIR"] = folder_ + "/run";
  }
  ~Run() override {
    // After every test no run directory and no process is left.
    EXPECT_TRUE(fs::is_empty(folder_ + "/run"));
    EXPECT_TRUE(end_of_processes());
    fs::remove_all(folder_);
  }

  // distwrap run <options> -- rank_program <words>
  std::unique_ptr<Process> run(const Words& options, const Words& words) {
    Words argv = options;
    argv.push_back("--");
    argv.push_back(RANK_PROGRAM);
    argv.insert(argv.end(), words.begin(), words.end());
    return run_any(argv);
  }
  std::unique_ptr<Process> run_any(const Words& arguments) {
    Words argv = {DISTWRAP, "run"};
    argv.insert(argv.end(), arguments.begin(), arguments.end());
    return std::make_unique<Process>(argv, options_);
  }

  // A killed process exists until it has been reaped.
  bool end_of_processes() {
    const Deadline deadline = Deadline::after(absl::Seconds(20));
    while (!processes_with("DISTWRAP_RUN_DIR", folder_ + "/run").empty()) {
      if (deadline.passed()) return false;
      std::this_thread::yield();
    }
    return true;
  }

  std::string folder_;
  Process::Options options_;
};

std::vector<std::string> lines_of(const std::string& text) {
  return absl::StrSplit(text, '\n', absl::SkipEmpty());
}

std::string contents(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

TEST_F(Run, ExitCodeIsTheRanks) {
  EXPECT_EQ(run_any({"-n", "2", "/bin/true"})->wait(), 0);
  EXPECT_EQ(run_any({"-n", "2", "true"})->wait(), 0) << "found in PATH";
  const auto failed = run({"-n", "2"}, {"exit-as-rank"});
  EXPECT_EQ(failed->wait(), 1);
  EXPECT_THAT(failed->err(), HasSubstr("rank 1"));
  EXPECT_THAT(failed->err(), HasSubstr("exited with code 1"));
  EXPECT_EQ(run({"-n", "1"}, {"fail", "0", "255"})->wait(), 255);
}

TEST_F(Run, NodesThatCannotBeAreUsageErrors) {
  const struct {
    std::vector<std::string> words;
    std::string part;
  } all[] = {
      {{"--nnodes", "2", "--node-rank", "2", "--rdzv", "a:1"}, "0 to 1"},
      {{"--nnodes", "2", "--node-rank", "-1", "--rdzv", "a:1"}, "--node-rank"},
      {{"--nnodes", "0"}, "--nnodes 0"},
      {{"--nnodes", "2"}, "--rdzv HOST:PORT"},
      {{"--nnodes", "2", "--rdzv", "node0"}, "HOST:PORT is needed"},
      {{"--nnodes", "2", "--rdzv", "a:1"}, "--nnodes needs --node-rank"},
      {{"--nnodes", "2", "--rdzv", "node0:0"}, "HOST:PORT is needed"},
      {{"--node-rank", "1"}, "need --nnodes"},
      {{"--rdzv", "a:1"}, "need --nnodes"},
  };
  for (const auto& one : all) {
    std::vector<std::string> words = one.words;
    words.insert(words.end(), {"-n", "1", "true"});
    const auto process = run_any(words);
    EXPECT_EQ(process->wait(), 2) << one.part;
    EXPECT_THAT(process->err(), HasSubstr(one.part));
    EXPECT_EQ(lines_of(process->err()).size(), 1u) << process->err();
  }
  // Without a key nothing listens, although the address is this host's.
  const auto open = run_any({"--nnodes", "2", "--node-rank", "0", "--rdzv",
                             "127.0.0.1:29518", "-n", "1", "true"});
  EXPECT_EQ(open->wait(), 1);
  EXPECT_THAT(open->err(), HasSubstr("DISTWRAP_JOB_KEY"));
}

TEST_F(Run, MakesAKey) {
  const std::string path = folder_ + "/job.key";
  const auto made = run_any({"--make-key", path});
  EXPECT_EQ(made->wait(), 0) << made->err();
  EXPECT_EQ(contents(path).size(), 65u);
  EXPECT_EQ(run_any({"--make-key", path})->wait(), 1) << "it exists";
}

// Two nodes on one host, which need no namespaces.
TEST_F(Run, TwoNodesOfOneHostAreOneJob) {
  ASSERT_EQ(run_any({"--make-key", folder_ + "/job.key"})->wait(), 0);
  options_.env["DISTWRAP_JOB_KEY"] = "file:" + folder_ + "/job.key";
  const auto node = [&](std::vector<std::string> words,
                        const std::string& ranks) {
    words.insert(
        words.end(),
        {"--nnodes", "2", "--rdzv", "127.0.0.1:29519", "-n", ranks, "sh", "-c",
         "echo $DISTWRAP_RANK of $DISTWRAP_WORLD_SIZE, local "
         "$DISTWRAP_LOCAL_RANK of $DISTWRAP_LOCAL_WORLD_SIZE, "
         "key ${DISTWRAP_JOB_KEY:-none}"});
    return run_any(words);
  };
  // The option wins over the number that Kubernetes gives.
  options_.env["JOB_COMPLETION_INDEX"] = "1";
  const auto second = node({}, "2");
  const auto first = node({"--node-rank", "0"}, "1");
  EXPECT_EQ(first->wait(), 0) << first->err();
  EXPECT_EQ(second->wait(), 0) << second->err();
  EXPECT_EQ(first->out(), "[0] 0 of 3, local 0 of 1, key none\n");
  EXPECT_THAT(
      lines_of(second->out()),
      testing::UnorderedElementsAre("[1] 1 of 3, local 0 of 2, key none",
                                    "[2] 2 of 3, local 1 of 2, key none"));
}

TEST_F(Run, KilledRankIsNamed) {
  for (const int number : {SIGKILL, SIGSEGV, SIGTERM}) {
    const auto process = run({"-n", "1"}, {"die", "0", absl::StrCat(number)});
    EXPECT_EQ(process->wait(), 128 + number);
    EXPECT_THAT(process->err(),
                AllOf(HasSubstr("rank 0 (pid "),
                      HasSubstr(absl::StrCat("was killed by SIG",
                                             sigabbrev_np(number)))));
  }
}

TEST_F(Run, LinesHaveTheirRank) {
  const auto process =
      run_any({"-n", "2", "sh", "-c",
               "echo one; echo; printf 'no newline'; echo complaint >&2"});
  EXPECT_EQ(process->wait(), 0);
  EXPECT_THAT(lines_of(process->out()),
              UnorderedElementsAre("[0] one", "[0] ", "[0] no newline",
                                   "[1] one", "[1] ", "[1] no newline"));
  EXPECT_THAT(lines_of(process->err()),
              UnorderedElementsAre("[0] complaint", "[1] complaint"));
}

TEST_F(Run, RawOutput) {
  const auto process =
      run_any({"-n", "2", "--output", "raw", "sh", "-c", "echo x; echo y >&2"});
  EXPECT_EQ(process->wait(), 0);
  EXPECT_EQ(process->out(), "x\nx\n");
  EXPECT_EQ(process->err(), "y\ny\n");
}

TEST_F(Run, OutputInFiles) {
  const std::string folder = folder_ + "/new/logs";
  const auto process = run_any({"-n", "2", "--output", folder, "sh", "-c",
                                "echo $DISTWRAP_RANK; echo complaint >&2"});
  EXPECT_EQ(process->wait(), 0);
  EXPECT_EQ(process->out() + process->err(), "");
  EXPECT_EQ(contents(folder + "/rank-0.out"), "0\n");
  EXPECT_EQ(contents(folder + "/rank-1.out"), "1\n");
  EXPECT_EQ(contents(folder + "/rank-1.err"), "complaint\n");

  const auto refused = run_any({"-n", "1", "--output", "/proc/x", "true"});
  EXPECT_EQ(refused->wait(), 1);
  EXPECT_THAT(refused->err(), HasSubstr("/proc/x"));
}

TEST_F(Run, RanksAreToldWhoTheyAre) {
  // The variables of an outer job do not reach the ranks.
  options_.env["DISTWRAP_RANK"] = "7";
  options_.env["DISTWRAP_JOB_ID"] = "outer";
  const auto process = run_any(
      {"-n", "2", "sh", "-c",
       "echo $DISTWRAP_RANK/$DISTWRAP_WORLD_SIZE "
       "$DISTWRAP_LOCAL_RANK/$DISTWRAP_LOCAL_WORLD_SIZE; "
       "test $DISTWRAP_JOB_ID != outer && test -S ${DISTWRAP_STORE#unix:}"});
  EXPECT_EQ(process->wait(), 0) << process->err();
  EXPECT_THAT(lines_of(process->out()),
              UnorderedElementsAre("[0] 0/2 0/2", "[1] 1/2 1/2"));
}

TEST_F(Run, RanksMeetInTheStore) {
  const auto process = run({"-n", "4"}, {"exchange"});
  EXPECT_EQ(process->wait(), 0) << process->out() << process->err();
  const auto lines = lines_of(process->out());
  ASSERT_EQ(lines.size(), 4u);
  for (const std::string& line : lines) {
    EXPECT_THAT(line, HasSubstr("rank0 rank1 rank2 rank3 of job "));
    EXPECT_EQ(line.substr(4), lines[0].substr(4)) << "one job id for all";
  }
}

TEST_F(Run, ProgramsThatCannotRun) {
  const std::string script = folder_ + "/script";
  std::ofstream(script) << "#!/no/such/interpreter\n";
  auto process = run_any({"-n", "2", script});
  EXPECT_EQ(process->wait(), 126);
  EXPECT_THAT(process->err(), HasSubstr("cannot be executed"));
  ASSERT_EQ(chmod(script.c_str(), 0755), 0);
  process = run_any({"-n", "1", script});
  EXPECT_EQ(process->wait(), 126);
  EXPECT_THAT(process->err(), HasSubstr("interpreter is missing"));
  process = run_any({"-n", "1", folder_});
  EXPECT_EQ(process->wait(), 126);
  EXPECT_THAT(process->err(), HasSubstr("directory"));
  for (const char* missing : {"/no/such/program", "no-such-program"}) {
    process = run_any({"-n", "2", missing});
    EXPECT_EQ(process->wait(), 127);
    EXPECT_THAT(process->err(), HasSubstr(missing));
  }
}

TEST_F(Run, OptionsThatAreNone) {
  const struct {
    Words words;
    const char* part;
  } cases[] = {{{"true"}, "--ranks"},
               {{"-n", "0", "true"}, "-n 0"},
               {{"-n", "-1", "true"}, "-n -1"},
               {{"-n", "two", "true"}, "two"},
               {{"-n", "2"}, "no program"},
               {{"-n", "2", "--"}, "no program"},
               {{"-n", "2", "--grave", "1", "true"}, "--grave"},
               {{"-n", "2", "--grace", "-1", "true"}, "--grace"}};
  for (const auto& bad : cases) {
    const auto process = run_any(bad.words);
    EXPECT_EQ(process->wait(), 2) << bad.part;
    EXPECT_THAT(process->err(), HasSubstr(bad.part));
    EXPECT_EQ(process->out(), "");
  }
  const auto many = run_any({"-n", "1000000", "true"});
  EXPECT_EQ(many->wait(), 1);
  EXPECT_THAT(many->err(), HasSubstr("1000000"));
}

TEST_F(Run, OptionsAfterTheProgramAreTheProgramsOwn) {
  for (const Words& words :
       {Words{"-n", "1", "echo", "-n5", "--help", "--", "-x"},
        Words{"-n", "1", "--", "echo", "-n5", "--help", "--", "-x"}}) {
    const auto process = run_any(words);
    EXPECT_EQ(process->wait(), 0);
    EXPECT_EQ(process->out(), "[0] -n5 --help -- -x\n");
  }
}

TEST_F(Run, HelpTellsOfTheOptions) {
  const auto process = run_any({"--help"});
  EXPECT_EQ(process->wait(), 0);
  for (const char* part : {"--ranks", "--output", "--grace", "--pin", "127"})
    EXPECT_THAT(process->out(), HasSubstr(part));
}

TEST_F(Run, SignalsReachEveryRank) {
  for (const int number :
       {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2}) {
    const auto process = run({"-n", "2"}, {"await-signal"});
    ASSERT_TRUE(process->read_until("ready", 2)) << process->err();
    process->signal(number);
    EXPECT_EQ(process->wait(), 7);
    const std::string got = absl::StrCat("got ", number);
    EXPECT_THAT(process->out(),
                AllOf(HasSubstr("[0] " + got), HasSubstr("[1] " + got)));
  }
}

TEST_F(Run, SignalEndsRanksThatDoNotHandleIt) {
  const auto process = run_any({"-n", "2", "sh", "-c", "echo ready; sleep 99"});
  ASSERT_TRUE(process->read_until("ready", 2));
  process->signal(SIGTERM);
  EXPECT_EQ(process->wait(), 128 + SIGTERM);
  EXPECT_EQ(process->err(), "") << "no news to who asked for it";
}

TEST_F(Run, DeafRanksAreKilledAfterTheGrace) {
  const auto process = run({"-n", "2", "--grace", "0.1"}, {"deaf"});
  ASSERT_TRUE(process->read_until("ready", 2));
  process->signal(SIGINT);
  EXPECT_EQ(process->wait(), 128 + SIGKILL);
}

TEST_F(Run, SecondSignalEndsAtOnce) {
  const auto process = run({"-n", "2", "--grace", "1000"}, {"deaf"});
  ASSERT_TRUE(process->read_until("ready", 2));
  process->signal(SIGINT);
  process->signal(SIGTERM);
  EXPECT_EQ(process->wait(), 128 + SIGKILL);
}

TEST_F(Run, OthersEndWhenOneFails) {
  auto process = run({"-n", "3", "--grace", "0.1"}, {"fail", "1", "3"});
  EXPECT_EQ(process->wait(), 3);
  EXPECT_THAT(process->err(), HasSubstr("rank 1"));
  EXPECT_THAT(process->err(), HasSubstr("exited with code 3"));
  EXPECT_THAT(process->err(), Not(HasSubstr("rank 0")));

  process =
      run({"-n", "3", "--grace", "0"}, {"die", "2", absl::StrCat(SIGKILL)});
  EXPECT_EQ(process->wait(), 128 + SIGKILL);
  EXPECT_THAT(process->err(), HasSubstr("rank 2"));
  EXPECT_THAT(process->err(), HasSubstr("SIGKILL"));

  process = run({"-n", "2", "--grace", "0"}, {"fail-among-deaf", "0", "5"});
  EXPECT_EQ(process->wait(), 5);
}

TEST_F(Run, SurvivorsHaveTimeToTellTheirError) {
  const auto process = run({"-n", "3", "--grace", "20"}, {"exchange", "1.5"});
  EXPECT_EQ(process->wait(), 3) << "the first that failed";
  EXPECT_THAT(process->err(), HasSubstr("rank 1 (pid "));
  for (const char* rank : {"[0] ", "[2] "})
    EXPECT_THAT(process->out(),
                HasSubstr(absl::StrCat(rank, "exchange: kTimedOut: 1 of 3")));
}

TEST_F(Run, ProcessesOfTheRanksGroupsGoWithThem) {
  const auto process = run({"-n", "2"}, {"leave-child"});
  EXPECT_EQ(process->wait(), 0);
  EXPECT_THAT(process->out(), HasSubstr("[1] left"));
}

TEST_F(Run, KilledLauncherTakesItsRanksAlong) {
  {
    const auto process = run({"-n", "2"}, {"deaf"});
    ASSERT_TRUE(process->read_until("ready", 2));
    process->signal(SIGKILL);
    EXPECT_EQ(process->wait(), 128 + SIGKILL);
  }
  EXPECT_TRUE(end_of_processes());
  // This launcher could not remove its directory; the next one does.
  EXPECT_FALSE(fs::is_empty(folder_ + "/run"));
  EXPECT_EQ(run_any({"-n", "1", "true"})->wait(), 0);
  EXPECT_TRUE(fs::is_empty(folder_ + "/run"));
}

TEST_F(Run, RunDirectoriesThatCannotBe) {
  const std::string file = folder_ + "/file";
  std::ofstream(file) << "";
  for (const std::string& folder :
       {std::string("/proc"), std::string("/proc/none"), file,
        std::string("relative")}) {
    Process process({DISTWRAP, "run", "-n", "1", "true"},
                    {.env = {{"DISTWRAP_RUN_DIR", folder}}});
    EXPECT_EQ(process.wait(), 1);
    EXPECT_THAT(process.err(),
                AllOf(HasSubstr("kRunDirectory"), HasSubstr(folder),
                      HasSubstr("DISTWRAP_RUN_DIR")));
  }
}

TEST_F(Run, SignalsAreToRanksAsTheyWereToTheLauncher) {
  options_.ignored = {SIGHUP};
  const auto process = run({"-n", "1"}, {"show-signals"});
  EXPECT_EQ(process->wait(), 0);
  EXPECT_EQ(process->out(), "[0] ignored: 1; blocked:\n");
}

TEST_F(Run, FirstRankReadsTheInput) {
  options_.input = "a\nb\n";
  const auto process = run({"-n", "2"}, {"repeat-input"});
  EXPECT_EQ(process->wait(), 0);
  EXPECT_THAT(lines_of(process->out()),
              UnorderedElementsAre("[0] read a", "[0] read b", "[0] 2 lines",
                                   "[1] 0 lines"));
}

TEST_F(Run, SlowReaderGetsAll) {
  constexpr int kLines = 60000;
  const auto process = run({"-n", "2"}, {"flood", absl::StrCat(kLines)});
  // The output is more than the launcher buffers for a slow reader.
  ASSERT_TRUE(process->read_until("[0] 0 ", 1));
  EXPECT_EQ(process->wait(), 0);
  EXPECT_EQ(lines_of(process->out()).size(), 2u * kLines);
  EXPECT_THAT(process->out(), HasSubstr(absl::StrCat("[1] ", kLines - 1)));
}

TEST_F(Run, ReaderThatGoesEndsTheWriters) {
  const auto process = run({"-n", "1"}, {"flood", "2000000000"});
  ASSERT_TRUE(process->read_until("[0] 0 ", 1));
  process->close_output();
  EXPECT_EQ(process->wait(), 128 + SIGPIPE);
}

TEST_F(Run, WithoutStandardDescriptors) {
  options_.without_stdio = true;
  EXPECT_EQ(run_any({"-n", "2", "true"})->wait(), 0);
  EXPECT_EQ(run({"-n", "2"}, {"exchange"})->wait(), 0);
}

TEST_F(Run, PinnedRanksHaveACoreEach) {
  cpu_set_t usable;
  ASSERT_EQ(sched_getaffinity(0, sizeof usable, &usable), 0);
  const int cores = CPU_COUNT(&usable);
  auto process = run({"-n", "1", "--pin"}, {"show-core"});
  EXPECT_EQ(process->wait(), 0);
  size_t first = 0;
  while (!CPU_ISSET(first, &usable)) ++first;
  EXPECT_EQ(process->out(), absl::StrCat("[0] cores: ", first, "\n"));

  process = run({"-n", absl::StrCat(cores + 1), "--pin"}, {"show-core"});
  EXPECT_EQ(process->wait(), 0);
  EXPECT_THAT(process->err(), HasSubstr("not pinned"));
}

TEST(Command, FindsItsSubCommands) {
  const auto distwrap = [](const Words& words) {
    Words argv = {DISTWRAP};
    argv.insert(argv.end(), words.begin(), words.end());
    return std::make_unique<Process>(argv, Process::Options{});
  };
  auto process = distwrap({"--version"});
  EXPECT_EQ(process->wait(), 0);
  EXPECT_EQ(process->out(), "distwrap " DISTWRAP_VERSION "\n");
  process = distwrap({"--help"});
  EXPECT_EQ(process->wait(), 0);
  EXPECT_THAT(process->out(), HasSubstr("run"));
  process = distwrap({"help", "run"});
  EXPECT_EQ(process->wait(), 0);
  EXPECT_THAT(process->out(), HasSubstr("--grace"));
  process = distwrap({"rnu"});
  EXPECT_EQ(process->wait(), 2);
  EXPECT_THAT(process->err(), AllOf(HasSubstr("'rnu'"), HasSubstr("'run'")));
  process = distwrap({});
  EXPECT_EQ(process->wait(), 2);
  EXPECT_THAT(process->err(), HasSubstr("Usage"));
}

}  // namespace
}  // namespace distwrap::cli
