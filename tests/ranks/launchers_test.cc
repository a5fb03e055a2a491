// Jobs that real launchers start: all ranks find each other, and two
// simultaneous jobs never meet.
#include "unit/cli/process.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <stdlib.h>
#include <string>
#include <vector>

namespace distwrap {
namespace {

namespace fs = std::filesystem;
using ::distwrap::cli::Process;
using ::testing::HasSubstr;
using ::testing::Not;
using Words = std::vector<std::string>;
using Variables = std::map<std::string, std::string>;

int count(const std::string& text, const std::string& part) {
  int n = 0;
  for (size_t at = 0; (at = text.find(part, at)) != std::string::npos; ++n)
    at += part.size();
  return n;
}

Words operator+(Words a, const Words& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// Each mpirun gets a temporary folder of its own: two that start at once fail
// now and then when both make the same session folder.
Words mpirun() {
  return {"/bin/sh",
          "-c",
          "TMPDIR=$(mktemp -d) && export TMPDIR && \"$0\" \"$@\"; code=$?; "
          "rm -rf \"$TMPDIR\"; exit $code",
          MPIRUN,
          "--allow-run-as-root",
          "--oversubscribe",
          "-n",
          "2"};
}
Words hydra() { return {MPIEXEC_HYDRA, "-n", "2"}; }
Words own() { return {DISTWRAP_TOOL, "run", "--output", "raw", "-n", "2"}; }

class Launched : public ::testing::Test {
 protected:
  Launched() {
    char path[] = "/tmp/distwrap_test_XXXXXX";
    folder_ = mkdtemp(path);
  }
  ~Launched() override { fs::remove_all(folder_); }

  Variables variables() const {
    return {{"DISTWRAP_RUN_DIR", folder_}, {"DISTWRAP_INIT_TIMEOUT", "25"}};
  }

  std::unique_ptr<Process> start(const Words& launcher,
                                 const std::string& value,
                                 Variables more = {}) {
    more.merge(variables());
    return std::make_unique<Process>(launcher + Words{PROGRAM, value},
                                     Process::Options{.env = more});
  }

  // Two jobs of two ranks that are known to have run at the same time.
  void expect_two_jobs(const Words& launcher, const Variables& more = {}) {
    Variables held = more;
    held["GO_FILE"] = folder_ + "/go";
    const auto ones = start(launcher, "1", held);
    const auto hundreds = start(launcher, "100", held);
    for (const auto& job : {ones.get(), hundreds.get()})
      ASSERT_TRUE(job->read_until("started", 2)) << job->out() << job->err();
    std::ofstream(folder_ + "/go") << "";
    for (const auto& job : {ones.get(), hundreds.get()})
      EXPECT_EQ(job->wait(), 0) << job->out() << job->err();
    EXPECT_EQ(count(ones->out(), "of 2 sum 2\n"), 2) << ones->out();
    EXPECT_EQ(count(hundreds->out(), "of 2 sum 200\n"), 2) << hundreds->out();
    for (const char* rank : {"rank 0 of 2", "rank 1 of 2"}) {
      EXPECT_EQ(count(ones->out(), rank), 1) << ones->out();
      EXPECT_EQ(count(hundreds->out(), rank), 1) << hundreds->out();
    }
    EXPECT_THAT(ones->err(), Not(HasSubstr("distwrap")));
  }

  std::string folder_;
};

#define NEEDS(path)      \
  if (!fs::exists(path)) \
  GTEST_SKIP() << "the launcher is not installed: " << (path)

TEST_F(Launched, Own) { expect_two_jobs(own()); }

TEST_F(Launched, OpenMpi) {
  NEEDS(MPIRUN);
  expect_two_jobs(mpirun());
}

TEST_F(Launched, Hydra) {
  NEEDS(MPIEXEC_HYDRA);
  expect_two_jobs(hydra());
}

// PMIx's client library gives the number of ranks.
TEST_F(Launched, PmixAlone) {
  NEEDS(MPIRUN);
  expect_two_jobs(mpirun() + Words{"/usr/bin/env", "-u", "OMPI_COMM_WORLD_RANK",
                                   "-u", "OMPI_COMM_WORLD_SIZE"});
}

// Starts processes as torchrun does: each with the recorded variables.
TEST_F(Launched, VariablesOfTorchrun) {
  Variables recorded;
  std::ifstream file(GOLDEN_DIR "/launch/torchrun.env");
  for (std::string line; std::getline(file, line);)
    recorded[line.substr(0, line.find('='))] = line.substr(line.find('=') + 1);
  ASSERT_EQ(recorded.count("TORCHELASTIC_RUN_ID"), 1u);
  std::vector<std::unique_ptr<Process>> ranks;
  for (const char* job : {"one", "two"})
    for (const char* rank : {"0", "1"}) {
      Variables mine = recorded;
      mine["TORCHELASTIC_RUN_ID"] = job;
      mine["RANK"] = mine["LOCAL_RANK"] = mine["ROLE_RANK"] = rank;
      mine["GO_FILE"] = folder_ + "/go";
      ranks.push_back(start({}, job[0] == 'o' ? "1" : "100", mine));
    }
  for (const auto& rank : ranks)
    ASSERT_TRUE(rank->read_until("started", 1)) << rank->out() << rank->err();
  std::ofstream(folder_ + "/go") << "";
  for (size_t i = 0; i < ranks.size(); ++i) {
    EXPECT_EQ(ranks[i]->wait(), 0) << ranks[i]->out() << ranks[i]->err();
    EXPECT_THAT(ranks[i]->out(),
                HasSubstr(i < 2 ? "of 2 sum 2\n" : "of 2 sum 200\n"));
    EXPECT_EQ(ranks[i]->err(), "");
  }
}

// Starting torchrun takes a while, so the test belongs to the long set.
TEST_F(Launched, DISABLED_TorchrunItself) {
  const char* const chosen = std::getenv("TORCH_PYTHON");
  const std::string python = chosen != nullptr ? chosen : "/usr/bin/python3";
  NEEDS(python);
  if (Process({python, "-c", "import torch.distributed.run"}, {}).wait() != 0)
    GTEST_SKIP() << python << " (or TORCH_PYTHON) has no torch";
  const Words torchrun = {python,
                          "-m",
                          "torch.distributed.run",
                          "--standalone",
                          "--nproc-per-node",
                          "2",
                          "--no-python"};
  Variables held = {{"GO_FILE", folder_ + "/go"}};
  const auto ones = start(torchrun, "1", held);
  const auto hundreds = start(torchrun, "100", held);
  for (const auto& job : {ones.get(), hundreds.get()})
    ASSERT_TRUE(job->read_until("started", 2)) << job->out() << job->err();
  std::ofstream(folder_ + "/go") << "";
  for (const auto& job : {ones.get(), hundreds.get()})
    EXPECT_EQ(job->wait(), 0) << job->err();
  EXPECT_EQ(count(ones->out(), "of 2 sum 2\n"), 2) << ones->out();
  EXPECT_EQ(count(hundreds->out(), "of 2 sum 200\n"), 2) << hundreds->out();
}

// A launcher inside another one.

TEST_F(Launched, OwnInsideOpenMpi) {
  NEEDS(MPIRUN);
  const auto job = start(mpirun() + own(), "1");
  EXPECT_EQ(job->wait(), 0) << job->out() << job->err();
  // Each of mpirun's two processes has started a job of two ranks.
  EXPECT_EQ(count(job->out(), "rank 0 of 2 sum 2\n"), 2) << job->out();
  EXPECT_EQ(count(job->out(), "rank 1 of 2 sum 2\n"), 2) << job->out();
}

TEST_F(Launched, OpenMpiInsideOwnIsForced) {
  NEEDS(MPIRUN);
  const auto job =
      start(own() + mpirun(), "1", {{"DISTWRAP_LAUNCHER", "ompi"}});
  EXPECT_EQ(job->wait(), 0) << job->out() << job->err();
  EXPECT_EQ(count(job->out(), "rank 0 of 2 sum 2\n"), 2) << job->out();
  EXPECT_EQ(count(job->out(), "rank 1 of 2 sum 2\n"), 2) << job->out();
}

TEST_F(Launched, OpenMpiInsideOwnIsRefusedWhereRanksComeTwice) {
  NEEDS(MPIRUN);
  const auto job = start(own() + mpirun(), "1", {{"GO_FILE", folder_ + "/go"}});
  EXPECT_TRUE(job->read_until("init kRefused", 1)) << job->out() << job->err();
  std::ofstream(folder_ + "/go") << "";
  EXPECT_NE(job->wait(), 0) << job->out() << job->err();
}

TEST_F(Launched, HydraInsideOpenMpiIsAConflict) {
  NEEDS(MPIRUN);
  NEEDS(MPIEXEC_HYDRA);
  const auto job = start(mpirun() + hydra(), "1");
  EXPECT_NE(job->wait(), 0);
  EXPECT_THAT(job->out(), HasSubstr("init kLauncherConflict"));
  EXPECT_THAT(job->out(), Not(HasSubstr("started")));
  const auto forced =
      start(mpirun() + hydra(), "1", {{"DISTWRAP_LAUNCHER", "pmi"}});
  EXPECT_EQ(forced->wait(), 0) << forced->out() << forced->err();
  EXPECT_EQ(count(forced->out(), "rank 0 of 2 sum 2\n"), 2) << forced->out();
}

}  // namespace
}  // namespace distwrap
