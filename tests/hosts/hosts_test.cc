// Jobs on several hosts, which are network namespaces: how they start, who is
// kept out, and how they end.
#include "hosts/hosts.h"

#include "host_backends.h"
#include "unit/cli/debugger.h"

#include <absl/time/clock.h>
#include <absl/time/time.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <signal.h>
#include <sstream>
#include <stdlib.h>
#include <string>
#include <sys/stat.h>
#include <vector>

namespace distwrap::hosts_test {
namespace {

using ::distwrap::cli::Process;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ProcessPtr = std::unique_ptr<Process>;

class HostsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = Hosts::why_not(); !why.empty())
      GTEST_SKIP() << why;
    char path[] = "/tmp/distwrap_test_XXXXXX";
    folder_ = mkdtemp(path);
    key_ = make_key("job.key");
  }
  void TearDown() override {
    if (!folder_.empty()) std::filesystem::remove_all(folder_);
  }

  std::string make_key(const std::string& name) {
    Process made({DISTWRAP_TOOL, "run", "--make-key", folder_ + "/" + name},
                 {});
    EXPECT_EQ(made.wait(), 0) << made.err();
    return "file:" + folder_ + "/" + name;
  }

  // Each host has folders of its own, as machines have.
  Variables variables(int host, const std::string& key) const {
    const std::string run = folder_ + "/" + Hosts::name(host);
    std::filesystem::create_directory(run);
    chmod(run.c_str(), 0700);
    Variables all = {{"DISTWRAP_RUN_DIR", run},
                     {"DISTWRAP_INIT_TIMEOUT", "60"},
                     {"DISTWRAP_RECORDER_DIR", run}};
    if (!key.empty()) all["DISTWRAP_JOB_KEY"] = key;
    return all;
  }

  // This host's part of a job of two hosts, by `distwrap run`.
  ProcessPtr node(const Hosts& hosts, int host, int rank, const Words& program,
                  Variables more = {},
                  const std::optional<std::string>& key = std::nullopt,
                  int nodes = 2) const {
    Words words = {DISTWRAP_TOOL, "run",
                   "--nnodes",    std::to_string(nodes),
                   "--node-rank", std::to_string(rank),
                   "--rdzv",      Hosts::address(0) + ":29500",
                   "-n",          "2",
                   "--grace",     "1"};
    words.insert(words.end(), program.begin(), program.end());
    more.merge(variables(host, key.value_or(key_)));
    return hosts.start(host, words, more);
  }

  // The program's ranks without a launcher, so many on each host.
  std::vector<ProcessPtr> by_init_method(const Hosts& hosts,
                                         const std::string& what, int ranks = 2,
                                         int on_a_host = 1,
                                         Variables more = {}) const {
    more.insert({"BACKEND", "gloo"});
    std::vector<ProcessPtr> all;
    for (int rank = 0; rank < ranks; ++rank)
      all.push_back(
          rank_by_init_method(hosts, what, rank, ranks, on_a_host, more));
    return all;
  }
  ProcessPtr rank_by_init_method(const Hosts& hosts, const std::string& what,
                                 int rank, int ranks, int on_a_host,
                                 Variables more) const {
    more.merge(variables(rank / on_a_host, key_));
    return hosts.start(rank / on_a_host,
                       {PROGRAM, what,
                        "tcp://" + Hosts::address(0) +
                            ":29511?world_size=" + std::to_string(ranks) +
                            "&rank=" + std::to_string(rank)},
                       more);
  }

  std::string folder_, key_;
};

const Words kSum = {PROGRAM, "sum"}, kLoop = {PROGRAM, "loop"};

void expect_sums(const std::string& out, const std::string& hosts, int from,
                 int to, const std::string& backend) {
  for (int rank = from; rank < to; ++rank) {
    const std::string number = std::to_string(rank);
    EXPECT_THAT(out, HasSubstr("[" + number + "] rank " + number + " of 4 on " +
                               hosts + " backend " + backend + " sum 6\n"));
  }
}

// The standard output of a program that ends well.
std::string output_of(const Hosts& hosts, int host, const Words& argv) {
  const ProcessPtr process = hosts.start(host, argv);
  EXPECT_EQ(process->wait(), 0) << process->err();
  return process->out();
}

// The addresses of a host's sockets beyond its loopback interface that are in a
// state, both as the kernel writes them.
std::vector<std::string> sockets(const Hosts& hosts, int host,
                                 const std::string& wanted) {
  const std::string all =
      output_of(hosts, host, {"sh", "-c", "cat /proc/net/tcp /proc/net/tcp6"});
  std::vector<std::string> found;
  std::istringstream lines(all);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string slot, local, remote, state;
    words >> slot >> local >> remote >> state;
    if (state == wanted && local.rfind("0100007F", 0) != 0)
      found.push_back(local);
  }
  return found;
}
const char kListens[] = "0A", kEstablished[] = "01";

TEST_F(HostsTest, TwoNodesAddTheirRanks) {
  const Hosts hosts(2);
  const Variables gloo = {{"BACKEND", "gloo"}};
  const ProcessPtr second = node(hosts, 1, 1, kSum, gloo);
  const ProcessPtr first = node(hosts, 0, 0, kSum, gloo);
  EXPECT_EQ(first->wait(), 0) << first->err();
  EXPECT_EQ(second->wait(), 0) << second->err();
  expect_sums(first->out(), "0011", 0, 2, "gloo");
  expect_sums(second->out(), "0011", 2, 4, "gloo");
  EXPECT_EQ(first->err() + second->err(), "");
}

TEST_F(HostsTest, AutoReachesOtherHostsAndIsTheSameOnAll) {
  const Hosts hosts(2);
  const ProcessPtr first = node(hosts, 0, 0, kSum);
  const ProcessPtr second = node(hosts, 1, 1, kSum);
  EXPECT_EQ(first->wait(), 0) << first->err();
  EXPECT_EQ(second->wait(), 0) << second->err();
  const std::string backend =
      first->out().find("backend ucx") != std::string::npos ? "ucx" : "gloo";
  expect_sums(first->out(), "0011", 0, 2, backend);
  expect_sums(second->out(), "0011", 2, 4, backend);
}

TEST_F(HostsTest, ShmIsRefusedAndTheOthersAreNamed) {
  const Hosts hosts(2);
  const Variables shm = {{"BACKEND", "shm"}};
  const ProcessPtr first = node(hosts, 0, 0, kSum, shm);
  const ProcessPtr second = node(hosts, 1, 1, kSum, shm);
  for (Process* const one : {first.get(), second.get()}) {
    EXPECT_NE(one->wait(), 0);
    EXPECT_THAT(one->out(), AllOf(HasSubstr("failed kUnsupported"),
                                  HasSubstr("gloo or ucx")));
  }
}

TEST_F(HostsTest, DataInTheClearIsRefusedWhereItIsNotAllowed) {
  const Hosts hosts(2);
  const Variables strict = {{"BACKEND", "gloo"}, {"DISTWRAP_CLEAR_DATA", "0"}};
  const ProcessPtr first = node(hosts, 0, 0, kSum, strict);
  const ProcessPtr second = node(hosts, 1, 1, kSum, strict);
  for (Process* const one : {first.get(), second.get()}) {
    EXPECT_NE(one->wait(), 0);
    EXPECT_THAT(one->out(), AllOf(HasSubstr("failed kUnsupported"),
                                  HasSubstr("backend gloo sends data to other "
                                            "hosts in the clear")));
  }
}

TEST_F(HostsTest, RanksThatDifferOnDataInTheClearAreNamed) {
  const Hosts hosts(2);
  const ProcessPtr first = node(hosts, 0, 0, kSum, {{"BACKEND", "gloo"}});
  const ProcessPtr second = node(
      hosts, 1, 1, kSum, {{"BACKEND", "gloo"}, {"DISTWRAP_CLEAR_DATA", "0"}});
  for (Process* const one : {first.get(), second.get()}) {
    EXPECT_NE(one->wait(), 0);
    EXPECT_THAT(one->out(), AllOf(HasSubstr("failed kCallMismatch"),
                                  HasSubstr("data encrypted between hosts")));
  }
}

// The job's port is the only one that the control plane opens, on the host of
// node 0 alone, and the key is in no process of the job.
TEST_F(HostsTest, OnePortIsOpenAndTheKeyIsNowhere) {
  const Hosts hosts(2);
  const Variables gloo = {{"BACKEND", "gloo"}};
  const ProcessPtr first = node(hosts, 0, 0, kLoop, gloo);
  const ProcessPtr second = node(hosts, 1, 1, kLoop, gloo);
  ASSERT_TRUE(first->read_until("sum 6", 2)) << first->err();
  ASSERT_TRUE(second->read_until("sum 6", 2)) << second->err();
  const auto is_the_jobs = EndsWith(":733C");  // 29500
  EXPECT_THAT(sockets(hosts, 0, kListens), Contains(is_the_jobs));
  EXPECT_THAT(sockets(hosts, 1, kListens), Not(Contains(is_the_jobs)));
  // Two of the launcher itself, and one that carries those of all its ranks.
  EXPECT_THAT(sockets(hosts, 0, kEstablished), Contains(is_the_jobs).Times(3));
  std::ifstream file(key_.substr(key_.find('/')));
  std::string digits;
  std::getline(file, digits);
  ASSERT_EQ(digits.size(), 64u);
  int seen = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string id = entry.path().filename();
    if (id.find_first_not_of("0123456789") != std::string::npos) continue;
    for (const char* const name : {"environ", "cmdline"}) {
      std::ifstream in(entry.path() / name, std::ios::binary);
      const std::string text(std::istreambuf_iterator<char>(in), {});
      if (text.find(folder_) == std::string::npos) continue;
      ++seen;
      EXPECT_EQ(text.find(digits), std::string::npos) << entry.path();
      if (text.find(PROGRAM) == std::string::npos || name[0] == 'c') continue;
      EXPECT_EQ(text.find("DISTWRAP_JOB_KEY=file"), std::string::npos);
    }
  }
  EXPECT_GE(seen, 4) << "the ranks were looked at";
  first->signal(SIGTERM);
  EXPECT_NE(first->wait(), 0);
  EXPECT_NE(second->wait(), 0);
}

// Ranks that another launcher has started, with torchrun's variables.
TEST_F(HostsTest, RanksOfAnotherLauncherMeetAtItsMaster) {
  const Hosts hosts(2);
  std::vector<ProcessPtr> ranks;
  for (int rank = 0; rank < 4; ++rank) {
    const int host = rank / 2;
    Variables torchrun = {{"RANK", std::to_string(rank)},
                          {"WORLD_SIZE", "4"},
                          {"LOCAL_RANK", std::to_string(rank % 2)},
                          {"LOCAL_WORLD_SIZE", "2"},
                          {"GROUP_RANK", std::to_string(host)},
                          {"GROUP_WORLD_SIZE", "2"},
                          {"TORCHELASTIC_RUN_ID", "run1"},
                          {"TORCHELASTIC_RESTART_COUNT", "0"},
                          {"MASTER_ADDR", Hosts::address(0)},
                          {"MASTER_PORT", "29500"},
                          {"BACKEND", "gloo"}};
    torchrun.merge(variables(host, key_));
    ranks.push_back(hosts.start(host, kSum, torchrun));
  }
  for (int rank = 0; rank < 4; ++rank) {
    Process& process = *ranks[static_cast<size_t>(rank)];
    EXPECT_EQ(process.wait(), 0) << process.err();
    EXPECT_EQ(process.out(), "rank " + std::to_string(rank) +
                                 " of 4 on 0011 backend gloo sum 6\n");
  }
}

// Open MPI's own daemons start the ranks of the other host, and PMIx tells all
// of them where rank 0 is. The second time the ranks do not see Open MPI's
// variables, as under prterun.
TEST_F(HostsTest, RanksOfMpirunMeetWherePmixSays) {
  const Hosts hosts(2);
  const std::string shell = folder_ + "/remote-shell";
  hosts.write_remote_shell(shell);
  for (const char* const hidden : {"-u NOTHING", "-u OMPI_COMM_WORLD_RANK"}) {
    const std::string rank =
        "export DISTWRAP_RUN_DIR=" + folder_ +
        "/$(hostname) && mkdir -p -m 700 $DISTWRAP_RUN_DIR && exec env " +
        hidden + " \"$0\" sum";
    const std::string both =
        Hosts::address(0) + ":2," + Hosts::address(1) + ":2";
    const ProcessPtr job = hosts.start(0,
                                       {"mpirun.openmpi",
                                        "--allow-run-as-root",
                                        "--oversubscribe",
                                        "--bind-to",
                                        "none",
                                        "--mca",
                                        "plm_rsh_agent",
                                        shell,
                                        "--mca",
                                        "oob_tcp_if_include",
                                        "eth0",
                                        "--host",
                                        both,
                                        "-n",
                                        "4",
                                        "-x",
                                        "DISTWRAP_JOB_KEY",
                                        "-x",
                                        "BACKEND",
                                        "-x",
                                        "DISTWRAP_INIT_TIMEOUT",
                                        "sh",
                                        "-c",
                                        rank,
                                        PROGRAM},
                                       {{"DISTWRAP_JOB_KEY", key_},
                                        {"BACKEND", "gloo"},
                                        {"DISTWRAP_INIT_TIMEOUT", "60"},
                                        {"TMPDIR", folder_}});
    EXPECT_EQ(job->wait(), 0) << job->err();
    for (int number = 0; number < 4; ++number)
      EXPECT_THAT(job->out(), HasSubstr("rank " + std::to_string(number) +
                                        " of 4 on 0011 backend gloo sum 6\n"));
  }
}

TEST_F(HostsTest, RanksMeetAtAnInitMethod) {
  const Hosts hosts(2);
  for (const ProcessPtr& process : by_init_method(hosts, "sum")) {
    EXPECT_EQ(process->wait(), 0) << process->err();
    EXPECT_THAT(process->out(), HasSubstr("of 2 on 01 backend gloo sum 1"));
  }
}

TEST_F(HostsTest, RandomProgramsComeOutRight) {
  for (const std::string backend :
       testing::and_ucx<const char*>({"gloo"}, {"ucx"})) {
    const Hosts hosts(2);
    for (const ProcessPtr& process :
         by_init_method(hosts, "play", 4, 2, {{"BACKEND", backend}})) {
      EXPECT_EQ(process->wait(), 0) << process->err() << process->out();
      EXPECT_THAT(process->out(), HasSubstr("played"));
    }
  }
}

// `distwrap bench` compares each result with that of the reference.
TEST_F(HostsTest, EveryOperationHasTheResultOfTheReference) {
  for (const std::string backend :
       testing::and_ucx<const char*>({"gloo"}, {"ucx"})) {
    const Hosts hosts(2);
    const Words words = {DISTWRAP_TOOL, "bench",    "all", "--backend", backend,
                         "--sizes",     "8,4K",     "-n",  "1",         "-w",
                         "1",           "--rounds", "1",   "--check",   "1"};
    const ProcessPtr second = node(hosts, 1, 1, words);
    const ProcessPtr first = node(hosts, 0, 0, words);
    EXPECT_EQ(first->wait(), 0) << first->err() << first->out();
    EXPECT_EQ(second->wait(), 0) << second->err() << second->out();
    EXPECT_THAT(first->out(), HasSubstr("all_to_all_v"));
  }
}

// No engine sees a difference, because both calls move as many bytes.
TEST_F(HostsTest, CallsThatDifferAreNamedOnAllHosts) {
  const Hosts hosts(2);
  for (const ProcessPtr& process : by_init_method(hosts, "differ")) {
    EXPECT_EQ(process->wait(), 3) << process->err();
    EXPECT_THAT(process->out(), HasSubstr("failed kCallMismatch ranks 1:"));
  }
}

TEST_F(HostsTest, ANodeWithAnotherKeyIsKeptOutAndHarmsNobody) {
  const Hosts hosts(3);
  const Variables gloo = {{"BACKEND", "gloo"}};
  const ProcessPtr first = node(hosts, 0, 0, kSum, gloo);
  const ProcessPtr stranger =
      node(hosts, 2, 1, kSum, gloo, make_key("other.key"));
  EXPECT_EQ(stranger->wait(), 1);
  EXPECT_THAT(stranger->err(),
              AllOf(HasSubstr("kAuthFailed"), HasSubstr("the same job key")));
  const ProcessPtr second = node(hosts, 1, 1, kSum, gloo);
  EXPECT_EQ(first->wait(), 0) << first->err();
  EXPECT_EQ(second->wait(), 0) << second->err();
}

TEST_F(HostsTest, WithoutAKeyNothingListens) {
  const Hosts hosts(1);
  const ProcessPtr first = node(hosts, 0, 0, kSum, {}, "");
  EXPECT_EQ(first->wait(), 1);
  EXPECT_THAT(first->err(),
              AllOf(HasSubstr("kAuthFailed"), HasSubstr("--make-key"),
                    HasSubstr("DISTWRAP_JOB_KEY=none")));
}

TEST_F(HostsTest, AClosedNetworkMayDoWithoutASecret) {
  const Hosts hosts(2);
  const Variables gloo = {{"BACKEND", "gloo"}};
  const ProcessPtr first = node(hosts, 0, 0, kSum, gloo, "none");
  const ProcessPtr second = node(hosts, 1, 1, kSum, gloo, "none");
  EXPECT_EQ(first->wait(), 0) << first->err();
  EXPECT_EQ(second->wait(), 0) << second->err();
}

TEST_F(HostsTest, ASecondNodeOfOneNumberIsRefusedWithBoth) {
  const Hosts hosts(3);
  const ProcessPtr first = node(hosts, 0, 0, kLoop);
  const ProcessPtr second = node(hosts, 1, 1, kLoop);
  ASSERT_TRUE(second->read_until("sum 6", 2)) << second->err();
  const ProcessPtr other = node(hosts, 2, 1, kLoop);
  EXPECT_EQ(other->wait(), 1);
  EXPECT_THAT(other->err(), AllOf(HasSubstr("kRefused"), HasSubstr("on host1"),
                                  HasSubstr("on host2")));
  const ProcessPtr larger = node(hosts, 2, 2, kLoop, {}, std::nullopt, 3);
  EXPECT_EQ(larger->wait(), 1);
  EXPECT_THAT(larger->err(), AllOf(HasSubstr("kRefused"), HasSubstr("2 nodes"),
                                   HasSubstr("3 nodes")));
  second->signal(SIGTERM);
  EXPECT_NE(first->wait(), 0);
}

TEST_F(HostsTest, AnAddressThatIsNoneIsNamed) {
  const Hosts hosts(2);
  // Node 0 is started on a host that does not have the address.
  const ProcessPtr wrong = node(hosts, 1, 0, kSum);
  EXPECT_EQ(wrong->wait(), 1);
  EXPECT_THAT(wrong->err(),
              AllOf(HasSubstr("kStoreUnreachable"), HasSubstr("10.77.0.1")));
  Words words = {DISTWRAP_TOOL, "run", "--nnodes", "2",
                 "--node-rank", "1",   "--rdzv",   "192.0.2.9:29500",
                 "-n",          "1",   PROGRAM,    "sum"};
  const ProcessPtr away = hosts.start(1, words, variables(1, key_));
  EXPECT_EQ(away->wait(), 1);
  EXPECT_THAT(away->err(), AllOf(HasSubstr("kStoreUnreachable"),
                                 HasSubstr("192.0.2.9"), HasSubstr("errno")));
}

// A rank that fails ends the job on all nodes.
TEST_F(HostsTest, AFailedNodeEndsAll) {
  const Hosts hosts(2);
  const ProcessPtr first = node(hosts, 0, 0, {PROGRAM, "leave", "0"});
  const ProcessPtr second = node(hosts, 1, 1, {PROGRAM, "leave", "7"});
  EXPECT_EQ(second->wait(), 7);
  EXPECT_EQ(first->wait(), 1);
  EXPECT_THAT(first->err(),
              AllOf(HasSubstr("node 1 (host1)"), HasSubstr("code 7")));
}

// A node that vanishes with all its ranks is heard of by the others.
TEST_F(HostsTest, AKilledNodeEndsAll) {
  for (const int killed : {1, 0}) {
    const Hosts hosts(2);
    const Variables gloo = {{"BACKEND", "gloo"}};
    const ProcessPtr nodes[] = {node(hosts, 0, 0, kLoop, gloo),
                                node(hosts, 1, 1, kLoop, gloo)};
    for (const ProcessPtr& one : nodes)
      ASSERT_TRUE(one->read_until("sum 6", 2)) << one->err();
    nodes[killed]->signal(SIGKILL);
    EXPECT_EQ(nodes[killed]->wait(), 137);
    Process& other = *nodes[1 - killed];
    EXPECT_NE(other.wait(), 0);
    EXPECT_THAT(other.err(), HasSubstr("node " + std::to_string(killed)));
    EXPECT_THAT(other.out(), HasSubstr("failed kPeerLost"));
  }
}

// A host whose cable is out is silent, and both sides hear it.
TEST_F(HostsTest, ACutIsHeardOnBothSides) {
  const Hosts hosts(2);
  const Variables quick = {{"BACKEND", "gloo"}, {"DISTWRAP_HEARTBEAT", "3"}};
  const ProcessPtr first = node(hosts, 0, 0, kLoop, quick);
  const ProcessPtr second = node(hosts, 1, 1, kLoop, quick);
  ASSERT_TRUE(first->read_until("sum 6", 2)) << first->err();
  ASSERT_TRUE(second->read_until("sum 6", 2)) << second->err();
  const absl::Time start = absl::Now();
  hosts.set_cable(1, false);
  EXPECT_NE(first->wait(), 0);
  EXPECT_NE(second->wait(), 0);
  EXPECT_LT(absl::Now() - start, absl::Seconds(30));
  EXPECT_THAT(first->out(), HasSubstr("failed kPeerLost"));
  EXPECT_THAT(second->out(), HasSubstr("failed kPeerLost"));
}

// No connection for data exists yet when the cable is taken out, so the engine
// would wait for one.
TEST_F(HostsTest, FirstDataForAHostThatIsCutOffEndWithTheHeartbeat) {
  for (const std::string backend :
       testing::and_ucx<const char*>({"gloo"}, {"ucx"})) {
    SCOPED_TRACE(backend);
    const Hosts hosts(2);
    const std::vector<ProcessPtr> ranks =
        by_init_method(hosts, "late", 2, 1,
                       {{"BACKEND", backend}, {"DISTWRAP_HEARTBEAT", "2"}});
    for (const ProcessPtr& rank : ranks)
      ASSERT_TRUE(rank->read_until("ready", 1)) << rank->err();
    hosts.set_cable(1, false);
    const absl::Time start = absl::Now();
    for (const ProcessPtr& rank : ranks) {
      EXPECT_EQ(rank->wait(), 3) << rank->err();
      EXPECT_THAT(rank->out(), HasSubstr("failed kPeerLost"));
    }
    EXPECT_LT(absl::Now() - start, absl::Seconds(12));
  }
}

// Rank 0 serves the store of a job without a launcher. When its host is gone,
// groups of other hosts go on, and making a group fails.
TEST_F(HostsTest, GroupsOfOtherHostsOutliveTheHostOfTheStore) {
  for (const std::string backend : {"gloo", "ucx"})
    for (const bool is_cut : {false, true}) {
      SCOPED_TRACE(backend + (is_cut ? ", cut off" : ", killed"));
      const Hosts hosts(3);
      const std::vector<ProcessPtr> ranks =
          by_init_method(hosts, "outlive", 6, 2,
                         {{"BACKEND", backend}, {"DISTWRAP_HEARTBEAT", "2"}});
      for (const ProcessPtr& rank : ranks)
        ASSERT_TRUE(rank->read_until("is process", 1))
            << rank->err() << rank->out();
      if (is_cut) hosts.set_cable(0, false);
      for (size_t rank = 0; rank < 2 && !is_cut; ++rank)
        ranks[rank]->signal(SIGKILL);
      for (size_t rank = 2; rank < 6; ++rank) {
        EXPECT_EQ(ranks[rank]->wait(), 0) << ranks[rank]->err();
        EXPECT_THAT(
            ranks[rank]->out(),
            AllOf(HasSubstr("failed kPeerLost ranks 0:"),
                  HasSubstr("the rest adds to 6"),
                  HasSubstr("failed kStoreUnreachable"), HasSubstr("closed")));
      }
    }
}

// Whether a process carries the connections of its host's other processes.
bool is_agent(const Process& process) {
  const std::string tasks = "/proc/" + std::to_string(process.pid()) + "/task";
  std::error_code gone;
  for (const auto& task : std::filesystem::directory_iterator(tasks, gone)) {
    std::ifstream file(task.path() / "comm");
    std::string name;
    if (std::getline(file, name) && name == "dw-agent") return true;
  }
  return false;
}

// Ranks of a host whose agent is killed go on through another process of
// theirs, twice, and hear of these deaths only.
TEST_F(HostsTest, RanksOutliveTheAgentsOfTheirHost) {
  const Hosts hosts(2);
  const Variables gloo = {{"BACKEND", "gloo"}};
  std::vector<ProcessPtr> ranks;
  for (int rank = 0; rank < 6; ++rank) {
    ranks.push_back(
        rank_by_init_method(hosts, "outlive_agents", rank, 6, 3, gloo));
    const absl::Time start = absl::Now();
    while (rank == 3 && !is_agent(*ranks[3]) &&
           absl::Now() - start < absl::Seconds(30))
      absl::SleepFor(absl::Milliseconds(10));
  }
  for (const ProcessPtr& rank : ranks)
    ASSERT_TRUE(rank->read_until("is process", 1)) << rank->err();
  ASSERT_TRUE(is_agent(*ranks[3]));
  EXPECT_THAT(sockets(hosts, 0, kEstablished),
              Contains(EndsWith(":7347")).Times(1));  // 29511
  ranks[3]->signal(SIGKILL);
  for (const int rank : {0, 1, 2, 4, 5}) {
    Process& one = *ranks[static_cast<size_t>(rank)];
    ASSERT_TRUE(one.read_until("the rest is split", 1)) << one.out();
    EXPECT_THAT(one.out(), HasSubstr("failed kPeerLost ranks 3:"));
  }
  const int second = is_agent(*ranks[4]) ? 4 : 5;
  ASSERT_TRUE(is_agent(*ranks[static_cast<size_t>(second)]));
  ranks[static_cast<size_t>(second)]->signal(SIGKILL);
  for (const int rank : {0, 1, 2, 9 - second}) {
    Process& one = *ranks[static_cast<size_t>(rank)];
    EXPECT_EQ(one.wait(), 0) << one.err() << one.out();
    EXPECT_THAT(one.out(), AllOf(HasSubstr("failed kPeerLost ranks " +
                                           std::to_string(second - 1) + ":"),
                                 HasSubstr("closed")));
  }
}

// Rank 0 ends as soon as it hears that the agent has been killed, and the store
// with it, so other ranks of the agent's host may not hear that from the store.
TEST_F(HostsTest, AKilledAgentIsNamedWhereTheStoreEndsBecauseOfIt) {
  const Hosts hosts(2);
  std::vector<ProcessPtr> ranks = by_init_method(hosts, "quit", 6, 3);
  for (const ProcessPtr& rank : ranks)
    ASSERT_TRUE(rank->read_until("is process", 1)) << rank->err();
  const auto agent =
      std::find_if(ranks.begin() + 3, ranks.end(),
                   [](const ProcessPtr& rank) { return is_agent(*rank); });
  ASSERT_NE(agent, ranks.end());
  const std::string number = std::to_string(agent - ranks.begin());
  (*agent)->signal(SIGKILL);
  for (const ProcessPtr& rank : ranks) {
    if (rank == *agent) continue;
    EXPECT_EQ(rank->wait(), 3) << rank->err();
    EXPECT_THAT(rank->out(),
                HasSubstr("failed kPeerLost ranks " + number + ":"));
  }
}

// The store waits for that rank, and the news end the wait.
TEST_F(HostsTest, ARankThatIsLostWhileAGroupIsMadeIsNamed) {
  const Hosts hosts(2);
  const std::vector<ProcessPtr> ranks = by_init_method(hosts, "absent", 4, 2);
  for (const ProcessPtr& rank : ranks)
    ASSERT_TRUE(rank->read_until("ready", 1)) << rank->err();
  absl::SleepFor(absl::Milliseconds(200));
  const absl::Time start = absl::Now();
  ranks[3]->signal(SIGKILL);
  for (int rank = 0; rank < 3; ++rank) {
    Process& one = *ranks[static_cast<size_t>(rank)];
    EXPECT_EQ(one.wait(), 3) << one.err();
    EXPECT_THAT(one.out(), HasSubstr("failed kPeerLost ranks 3:"));
  }
  EXPECT_LT(absl::Now() - start, absl::Seconds(30)) << "not at the deadline";
}

// The process of a rank, which the node's output tells.
pid_t process_of(Process& node, int rank) {
  const std::string begin = "rank " + std::to_string(rank) + " is process ";
  if (!node.read_until(begin, 1) || !node.read_until("sum 6", 2)) return 0;
  node.read_until("\n", 4);
  return std::stoi(node.out().substr(node.out().find(begin) + begin.size()));
}

// A rank that a debugger holds on the host of the store, or on another one, is
// silent for longer than the heartbeat allows, and nobody counts it as lost.
// The death that comes then is heard of.
TEST_F(HostsTest, ARankThatADebuggerHoldsIsNotLost) {
  for (const int held : {0, 1}) {
    const Hosts hosts(2);
    const Variables quick = {{"BACKEND", "gloo"},
                             {"DISTWRAP_HEARTBEAT", "0.5"}};
    const ProcessPtr nodes[] = {node(hosts, 0, 0, kLoop, quick),
                                node(hosts, 1, 1, kLoop, quick)};
    const pid_t pid = process_of(*nodes[held], 2 * held);
    ASSERT_GT(pid, 0) << nodes[held]->err();
    ASSERT_TRUE(nodes[1 - held]->read_until("sum 6", 2));
    {
      const cli::Debugger debugger(pid);
      if (!debugger.holds())
        GTEST_SKIP() << "this system lets no process trace a process";
      absl::SleepFor(absl::Seconds(3));
    }
    ASSERT_EQ(kill(pid, SIGKILL), 0);
    for (const ProcessPtr& one : nodes) EXPECT_NE(one->wait(), 0);
    const std::string all = nodes[0]->out() + nodes[1]->out();
    EXPECT_THAT(all, HasSubstr("failed kPeerLost ranks " +
                               std::to_string(2 * held) + ":"));
    EXPECT_THAT(all, Not(HasSubstr("given this rank up")));
    EXPECT_THAT(all, Not(HasSubstr("stopped running")));
  }
}

// A rank sees the calls of ranks on other hosts, and that one of them is gone.
TEST_F(HostsTest, InfoShowsTheRanksOfAllHosts) {
  const Hosts hosts(2);
  const std::vector<ProcessPtr> ranks = by_init_method(hosts, "loop", 4, 2);
  for (const ProcessPtr& rank : ranks)
    ASSERT_TRUE(rank->read_until("is process", 1)) << rank->err();
  for (const int host : {0, 1}) {
    const std::string there = host == 0 ? " host1 " : " host0 ";
    const Process& one = *ranks[host == 0 ? 0 : 3];
    std::string seen;
    const absl::Time start = absl::Now();
    while (seen.find("2 told of by others") == std::string::npos &&
           absl::Now() - start < absl::Seconds(30))
      seen = output_of(hosts, host,
                       {DISTWRAP_TOOL, "info", "--live", "--once", "--job",
                        std::to_string(one.pid())});
    EXPECT_THAT(seen, AllOf(HasSubstr("2 of 4 ranks on this host"),
                            HasSubstr(there), Not(HasSubstr("not seen"))));
  }
  for (const ProcessPtr& rank : ranks) rank->signal(SIGKILL);
}

// UCX listens on a port of its own choice, which only the job's hosts reach.
TEST_F(HostsTest, StrangersDoNotReachUcx) {
  if (testing::and_ucx<int>({}, {1}).empty()) GTEST_SKIP() << "without UCX";
  const Hosts hosts(3);
  const Variables ucx = {{"BACKEND", "ucx"}};
  const ProcessPtr first = node(hosts, 0, 0, kLoop, ucx);
  const ProcessPtr second = node(hosts, 1, 1, kLoop, ucx);
  ASSERT_TRUE(first->read_until("sum 6", 2)) << first->err();
  int ports = 0;
  for (const std::string& place : sockets(hosts, 0, kListens)) {
    const int port = std::stoi(place.substr(place.find(':') + 1), nullptr, 16);
    if (port == 29500) continue;
    ++ports;
    const std::string call =
        "import socket\n"
        "s = socket.socket()\n"
        "s.settimeout(0.5)\n"
        "try:\n"
        "  s.connect(('10.77.0.1', " +
        std::to_string(port) +
        "))\n"
        "  print('in')\n"
        "except OSError: print('out')\n";
    EXPECT_EQ(output_of(hosts, 2, {"python3", "-c", call}), "out\n") << port;
    EXPECT_EQ(output_of(hosts, 1, {"python3", "-c", call}), "in\n") << port;
  }
  EXPECT_GE(ports, 2) << "each rank of host 0 has one";
  first->signal(SIGTERM);
  EXPECT_NE(first->wait(), 0);
}

// A stranger in the job's network, at the job's port and at those of gloo.
TEST_F(HostsTest, StrangersReachNobody) {
  const Hosts hosts(3);
  const Variables gloo = {{"BACKEND", "gloo"}};
  const ProcessPtr first = node(hosts, 0, 0, kLoop, gloo);
  const ProcessPtr second = node(hosts, 1, 1, kLoop, gloo);
  const std::string scan =
      "import socket\n"
      "open = 0\n"
      "for port in list(range(29480, 29520)) + list(range(32768, 61000, 7)):\n"
      "  s = socket.socket()\n"
      "  s.settimeout(0.002 if port > 30000 else 0.5)\n"
      "  try:\n"
      "    s.connect(('10.77.0.1', port))\n"
      "    s.send(b'x' * 4000)\n"
      "    open += 1\n"
      "  except OSError: pass\n"
      "  s.close()\n"
      "print(open)\n";
  ASSERT_TRUE(first->read_until("sum 6", 2)) << first->err();
  EXPECT_EQ(output_of(hosts, 2, {"python3", "-c", scan}), "1\n")
      << "only the job's own port answers";
  const ProcessPtr late = node(hosts, 2, 1, kLoop, gloo);
  EXPECT_EQ(late->wait(), 1) << "the job still answers";
  EXPECT_THAT(late->err(), HasSubstr("kRefused"));
  first->signal(SIGTERM);
  EXPECT_NE(first->wait(), 0);
  EXPECT_THAT(first->out() + second->out(), Not(HasSubstr("kBackendFailed")));
}

}  // namespace
}  // namespace distwrap::hosts_test
