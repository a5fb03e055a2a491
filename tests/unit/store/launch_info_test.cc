#include "store/launch_info.h"

#include "distwrap/status.h"
#include "store/job_name.h"

#include <absl/strings/str_cat.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <set>

namespace distwrap::store {
namespace {

using base::Environment;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Variables = Environment::Variables;

absl::StatusOr<LaunchInfo> detect(const Variables& variables,
                                  const LaunchNeeds& needs = {}) {
  return detect_launch(Environment(variables), needs);
}

void expect_error(const Variables& variables, Reason reason,
                  const std::vector<std::string>& parts) {
  const absl::Status status = detect(variables).status();
  EXPECT_EQ(error_reason(status), reason) << status;
  for (const std::string& part : parts)
    EXPECT_THAT(std::string(status.message()), HasSubstr(part));
}

// The variables of one rank of two on one host, as each launcher sets them.
Variables recorded(const std::string& name) {
  std::ifstream file(absl::StrCat(GOLDEN_DIR "/launch/", name, ".env"));
  EXPECT_TRUE(file.is_open()) << name;
  Variables variables;
  for (std::string line; std::getline(file, line);) {
    const size_t equals = line.find('=');
    if (line.empty() || line[0] == '#' || equals == std::string::npos) continue;
    variables[line.substr(0, equals)] = line.substr(equals + 1);
  }
  return variables;
}

Variables operator+(Variables a, const Variables& b) {
  a.insert(b.begin(), b.end());
  return a;
}

Variables without(Variables variables, const std::string& prefix) {
  for (auto at = variables.begin(); at != variables.end();)
    at = at->first.rfind(prefix, 0) == 0 ? variables.erase(at) : ++at;
  return variables;
}

Variables own(int rank, int size) {
  return {{"DISTWRAP_RANK", absl::StrCat(rank)},
          {"DISTWRAP_WORLD_SIZE", absl::StrCat(size)},
          {"DISTWRAP_LOCAL_RANK", absl::StrCat(rank)},
          {"DISTWRAP_LOCAL_WORLD_SIZE", absl::StrCat(size)},
          {"DISTWRAP_STORE", "unix:/x"},
          {"DISTWRAP_JOB_ID", "j"}};
}

Variables place_of(const LauncherRow& row, int rank, int size) {
  return {{std::string(row.rank), absl::StrCat(rank)},
          {std::string(row.size), absl::StrCat(size)}};
}

struct Record {
  const char *file, *launcher, *job_id;
};

class Recorded : public ::testing::TestWithParam<Record> {};

TEST_P(Recorded, IsRankOneOfTwoOnOneHost) {
  const auto info = detect(recorded(GetParam().file));
  ASSERT_TRUE(info.ok()) << info.status();
  EXPECT_EQ(info->launcher, GetParam().launcher);
  EXPECT_EQ(info->rank, 1);
  EXPECT_EQ(info->world_size, 2);
  EXPECT_EQ(info->local_rank, 1);
  EXPECT_EQ(info->local_world_size, 2);
  EXPECT_FALSE(info->has_several_hosts());
  EXPECT_EQ(info->job_id, GetParam().job_id);
  EXPECT_THAT(info->ignored, ElementsAre());
  for (const LaunchInfo::Fact& fact : info->facts)
    EXPECT_FALSE(fact.name.empty() || fact.value.empty() ||
                 fact.origin.empty());
}

INSTANTIATE_TEST_SUITE_P(
    Launchers, Recorded,
    ::testing::Values(
        Record{"distwrap", "own", "8c1f6a3e5b7d9024"},
        Record{"torchrun", "torchrun",
               "b9c8a5e4-b784-4df6-992f-a188a3484f30/localhost/33485"},
        Record{"openmpi", "ompi",
               "424083457/b71938fba1dd1805-fd279b094ce24646"},
        // Hydra gives the job's name only on request.
        Record{"hydra", "pmi", ""}, Record{"slurm", "slurm", "4711/0"}),
    [](const auto& test) { return std::string(test.param.file); });

TEST(DetectLaunch, EveryRowOfTheTableIsRead) {
  for (const LauncherRow& row : all_launchers()) {
    const auto info = detect(place_of(row, 3, 5));
    ASSERT_TRUE(info.ok()) << row.name << ": " << info.status();
    EXPECT_EQ(info->launcher, row.name);
    EXPECT_EQ(info->launcher_title, row.title);
    EXPECT_EQ(info->rank, 3);
    EXPECT_EQ(info->world_size, 5);
    // Without other facts, the job is on one host.
    EXPECT_EQ(info->local_rank, 3);
    EXPECT_EQ(info->local_world_size, 5);
    ASSERT_GE(info->facts.size(), 2u);
    EXPECT_EQ(info->facts[0].origin, row.rank);
    EXPECT_EQ(info->facts[1].origin, row.size);
  }
}

TEST(DetectLaunch, OwnLauncher) {
  Variables variables = own(1, 4);
  variables["DISTWRAP_LOCAL_RANK"] = "0";
  variables["DISTWRAP_LOCAL_WORLD_SIZE"] = "2";
  const auto info = detect(variables);
  ASSERT_TRUE(info.ok()) << info.status();
  EXPECT_EQ(info->local_rank, 0);
  EXPECT_EQ(info->local_world_size, 2);
  EXPECT_TRUE(info->has_several_hosts());
  EXPECT_EQ(info->store_address, "unix:/x");
  EXPECT_EQ(info->job_id, "j");
}

TEST(DetectLaunch, NothingNamesEveryVariable) {
  std::vector<std::string> names = {"distwrap run"};
  for (const LauncherRow& row : all_launchers()) {
    names.emplace_back(row.rank);
    names.emplace_back(row.size);
    names.emplace_back(row.title);
  }
  expect_error({{"PATH", "/bin"}}, Reason::kLaunchMissing, names);
}

TEST(DetectLaunch, HalfPairsAreShownAndNeverMixed) {
  expect_error({{"DISTWRAP_RANK", "3"}}, Reason::kLaunchMissing,
               {"DISTWRAP_RANK is 3", "DISTWRAP_WORLD_SIZE is unset"});
  expect_error({{"DISTWRAP_WORLD_SIZE", "4"}, {"DISTWRAP_RANK", ""}},
               Reason::kLaunchMissing,
               {"DISTWRAP_WORLD_SIZE is 4", "DISTWRAP_RANK is unset"});
  expect_error(
      {{"RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "4"}, {"SLURM_NTASKS", "many"}},
      Reason::kLaunchMissing,
      {"RANK is 0 but WORLD_SIZE is unset",
       "OMPI_COMM_WORLD_SIZE is 4 but OMPI_COMM_WORLD_RANK is unset",
       "SLURM_NTASKS is many but SLURM_PROCID is unset"});
  // A complete launcher further out is used, and not mixed with the half-set
  // one.
  const auto info =
      detect(recorded("openmpi") +
             Variables{{"RANK", "0"}, {"DISTWRAP_WORLD_SIZE", "9"}});
  ASSERT_TRUE(info.ok()) << info.status();
  EXPECT_EQ(info->launcher, "ompi");
  EXPECT_EQ(info->rank, 1);
  EXPECT_EQ(info->world_size, 2);
}

TEST(DetectLaunch, HalfALocalPlace) {
  expect_error({{"DISTWRAP_RANK", "0"},
                {"DISTWRAP_WORLD_SIZE", "2"},
                {"DISTWRAP_LOCAL_RANK", "0"}},
               Reason::kLaunchMissing, {"DISTWRAP_LOCAL_WORLD_SIZE is unset"});
}

TEST(DetectLaunch, JunkOfEveryLauncherIsNamed) {
  for (const LauncherRow& row : all_launchers()) {
    const std::string rank(row.rank), size(row.size);
    for (const char* junk :
         {"x", "1.5", "-1", "0x1", "1 2", "99999999999999999999"})
      expect_error({{rank, junk}, {size, "2"}}, Reason::kInvalidArgument,
                   {rank, junk});
    for (const char* junk : {"two", "0", "-2", "99999999999"})
      expect_error({{rank, "0"}, {size, junk}}, Reason::kInvalidArgument,
                   {size, junk});
    expect_error({{rank, "2"}, {size, "2"}}, Reason::kInvalidArgument,
                 {rank, size, "'2'"});
  }
}

TEST(DetectLaunch, JunkInTheLocalPlace) {
  Variables variables = own(0, 2);
  variables["DISTWRAP_LOCAL_RANK"] = "5";
  expect_error(variables, Reason::kInvalidArgument,
               {"DISTWRAP_LOCAL_RANK", "DISTWRAP_LOCAL_WORLD_SIZE", "'5'"});
  variables = own(0, 2);
  variables["DISTWRAP_LOCAL_WORLD_SIZE"] = "3";
  expect_error(variables, Reason::kInvalidArgument,
               {"DISTWRAP_LOCAL_WORLD_SIZE", "'3'"});
  expect_error(without(recorded("slurm"), "SLURM_NODEID") +
                   Variables{{"SLURM_NODEID", "first"}},
               Reason::kInvalidArgument, {"SLURM_NODEID", "'first'"});
}

TEST(DetectLaunch, JunkOfAnIgnoredLauncherIsIgnored) {
  const auto info =
      detect(own(0, 2) + Variables{{"RANK", "general"}, {"WORLD_SIZE", "2"}});
  ASSERT_TRUE(info.ok()) << info.status();
  EXPECT_EQ(info->launcher, "own");
}

// Nesting: the inner launcher's first.
TEST(DetectLaunch, OwnAndTorchrunWinOverAllOthers) {
  for (const char* outer : {"openmpi", "hydra", "slurm"}) {
    const auto mine = detect(own(0, 3) + recorded(outer));
    ASSERT_TRUE(mine.ok()) << mine.status();
    EXPECT_EQ(mine->launcher, "own");
    EXPECT_EQ(mine->world_size, 3);
    const auto theirs = detect(recorded("torchrun") + recorded(outer));
    ASSERT_TRUE(theirs.ok()) << theirs.status();
    EXPECT_EQ(theirs->launcher, "torchrun");
    EXPECT_EQ(theirs->ignored.size(), 1u);
  }
  EXPECT_EQ(detect(own(0, 3) + recorded("torchrun"))->launcher, "own");
}

TEST(DetectLaunch, IgnoredLaunchersAreKept) {
  const auto info = detect(recorded("torchrun") + recorded("slurm"));
  ASSERT_TRUE(info.ok()) << info.status();
  ASSERT_EQ(info->ignored.size(), 1u);
  EXPECT_EQ(info->ignored[0].launcher, "slurm");
  EXPECT_EQ(info->ignored[0].rank, 1);
  EXPECT_EQ(info->ignored[0].world_size, 2);

  Variables node = recorded("slurm");
  node["SLURM_PROCID"] = "0";
  node["SLURM_NTASKS"] = "1";
  EXPECT_TRUE(detect(recorded("torchrun") + node)->ignored[0].describes_node);
  node["SLURM_NTASKS"] = "3";
  EXPECT_FALSE(detect(recorded("torchrun") + node)->ignored[0].describes_node);
}

TEST(DetectLaunch, MpiBeatsSlurm) {
  Variables slurm = recorded("slurm");
  slurm["SLURM_PROCID"] = "0";
  slurm["SLURM_NTASKS"] = "1";
  for (const char* inner : {"openmpi", "hydra"}) {
    const auto info = detect(recorded(inner) + slurm);
    ASSERT_TRUE(info.ok()) << info.status();
    EXPECT_NE(info->launcher, "slurm");
    EXPECT_EQ(info->world_size, 2);
    ASSERT_EQ(info->ignored.size(), 1u);
    EXPECT_EQ(info->ignored[0].launcher, "slurm");
  }
}

TEST(DetectLaunch, UnclearNestingIsAConflict) {
  Variables hydra = recorded("hydra");
  hydra["PMI_RANK"] = "0";
  expect_error(
      recorded("openmpi") + hydra, Reason::kLauncherConflict,
      {"Open MPI (OMPI_COMM_WORLD_RANK=1, OMPI_COMM_WORLD_SIZE=2)",
       "PMI (PMI_RANK=0, PMI_SIZE=2)", "DISTWRAP_LAUNCHER=ompi", "=pmi"});
  // Equal by chance: rank 1 of a job inside rank 1 of another.
  expect_error(recorded("openmpi") + recorded("hydra"),
               Reason::kLauncherConflict, {"Open MPI", "PMI"});
}

TEST(DetectLaunch, OneIsForced) {
  const Variables both = recorded("openmpi") + recorded("hydra") + own(0, 7);
  for (const char* name : {"own", "ompi", "pmi"}) {
    const auto info = detect(both + Variables{{"DISTWRAP_LAUNCHER", name}});
    ASSERT_TRUE(info.ok()) << info.status();
    EXPECT_EQ(info->launcher, name);
  }
  expect_error(both + Variables{{"DISTWRAP_LAUNCHER", "slurm"}},
               Reason::kLaunchMissing, {"SLURM_PROCID and SLURM_NTASKS"});
  expect_error(both + Variables{{"DISTWRAP_LAUNCHER", "slrum"}},
               Reason::kInvalidArgument,
               {"DISTWRAP_LAUNCHER", "'slrum'", "did you mean 'slurm'?"});
}

// The variables of an outer job must not lead the inner job's ranks to its
// store.
TEST(DetectLaunch, StoreAndJobOfAnOuterJobAreLeftAlone) {
  const auto info = detect(own(0, 2) + recorded("openmpi") +
                           Variables{{"DISTWRAP_LAUNCHER", "ompi"}});
  ASSERT_TRUE(info.ok()) << info.status();
  EXPECT_EQ(info->store_address, "");
  EXPECT_EQ(info->job_id, "424083457/b71938fba1dd1805-fd279b094ce24646");
  // Variables that were set explicitly are for this job.
  const auto given =
      detect(recorded("openmpi") + Variables{{"DISTWRAP_STORE", "unix:/y"},
                                             {"DISTWRAP_JOB_ID", "mine"}});
  EXPECT_EQ(given->store_address, "unix:/y");
  EXPECT_EQ(given->job_id, "mine");
}

TEST(DetectLaunch, TheMeetingPlaceOfAMasterNamesTheJob) {
  const Variables place = {{"RANK", "0"}, {"WORLD_SIZE", "2"}};
  EXPECT_EQ(detect(place)->job_id, "");
  EXPECT_EQ(detect(place + Variables{{"MASTER_ADDR", "a"}})->job_id, "");
  EXPECT_EQ(detect(place + Variables{{"MASTER_PORT", "1"}})->job_id,
            "localhost:1");
  EXPECT_EQ(
      detect(place + Variables{{"MASTER_PORT", "1"}, {"MASTER_ADDR", "a"}})
          ->job_id,
      "a:1");
}

TEST(DetectLaunch, OnlyWhatIsNeeded) {
  const auto size = detect({{"WORLD_SIZE", "4"}}, {.rank = false});
  ASSERT_TRUE(size.ok()) << size.status();
  EXPECT_EQ(size->world_size, 4);
  EXPECT_EQ(size->rank, -1);
  const auto rank = detect({{"PMI_RANK", "3"}}, {.world_size = false});
  ASSERT_TRUE(rank.ok()) << rank.status();
  EXPECT_EQ(rank->rank, 3);
}

TEST(DetectLaunch, SeveralHostsAreSeen) {
  Variables slurm = recorded("slurm");
  slurm["SLURM_NNODES"] = "2";
  EXPECT_TRUE(detect(slurm)->has_several_hosts());
  Variables ompi = recorded("openmpi");
  ompi["OMPI_COMM_WORLD_SIZE"] = "4";
  EXPECT_TRUE(detect(ompi)->has_several_hosts());
}

TEST(JobName, DiffersWithEveryPartOfTheIdentity) {
  const Variables base = recorded("torchrun");
  std::set<std::string> names;
  const auto add = [&](const Variables& variables) {
    const auto info = detect(variables);
    ASSERT_TRUE(info.ok()) << info.status();
    const std::string name = job_name(*info);
    EXPECT_TRUE(names.insert(name).second) << name;
    EXPECT_LE(name.size(), 48u);
    EXPECT_EQ(name.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMN"
                                     "OPQRSTUVWXYZ0123456789-"),
              std::string::npos)
        << name;
  };
  add(base);
  for (const char* name : {"TORCHELASTIC_RUN_ID", "MASTER_PORT", "MASTER_ADDR",
                           "TORCHELASTIC_RESTART_COUNT"}) {
    Variables other = base;
    other[name] = "77";
    add(other);
  }
  Variables strange = base;
  strange["TORCHELASTIC_RUN_ID"] = "../../etc/\xff\n" + std::string(5000, 'x');
  add(strange);
  add(recorded("openmpi"));
  add(recorded("slurm"));
  // Another rank of the job has the same name.
  Variables other_rank = base;
  other_rank["RANK"] = other_rank["LOCAL_RANK"] = "0";
  EXPECT_EQ(names.count(job_name(*detect(other_rank))), 1u);
  EXPECT_EQ(job_name(*detect(recorded("hydra"))), "");
}

}  // namespace
}  // namespace distwrap::store
