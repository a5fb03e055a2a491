// Where ranks of several hosts meet, from the variables of launchers and from
// addresses.
#include "store/several_hosts.h"

#include "distwrap/status.h"
#include "store/job_key.h"
#include "store/rendezvous.h"
#include "store/store_place.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <set>
#include <stdlib.h>
#include <string>

namespace distwrap::store {
namespace {

using base::Environment;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using Variables = Environment::Variables;

TEST(SeveralHosts, PlacesOfAddresses) {
  EXPECT_EQ(HostPort::parse("node0:29500")->host, "node0");
  EXPECT_EQ(HostPort::parse("[fd00::1]:29500")->host, "fd00::1");
  EXPECT_EQ(HostPort::parse("[fd00::1]:29500")->text(), "[fd00::1]:29500");
  for (const char* const bad :
       {"", "node0", ":1", "node0:", "node0:0", "node0:65536", "node0:x",
        "fd00::1:29500", "[fd00::1:29500", "a b:1", "a/b:1"})
    EXPECT_FALSE(HostPort::parse(bad).has_value()) << bad;
  EXPECT_EQ(parse_places("a:1,2,3").size(), 3u);
  EXPECT_EQ(parse_places("a:1,2,3")[2].text(), "a:3");
  EXPECT_TRUE(parse_places("a:1,x").empty());
}

TEST(SeveralHosts, FirstNodeOfSlurmsLists) {
  EXPECT_EQ(first_node("gpu7"), "gpu7");
  EXPECT_EQ(first_node("gpu7,gpu9"), "gpu7");
  EXPECT_EQ(first_node("gpu[08-11,14],login"), "gpu08");
  EXPECT_EQ(first_node("rack[2,5]-n"), "rack2-n");
  EXPECT_EQ(first_node("gpu["), "");
  EXPECT_EQ(first_node(""), "");
}

TEST(SeveralHosts, TenPortsOfAJob) {
  std::set<int> ports;
  for (const HostPort& one : job_ports("node0", "torchrun-x")) {
    EXPECT_GE(one.port, 20000);
    EXPECT_LT(one.port, 32000);
    ports.insert(one.port);
  }
  EXPECT_EQ(ports.size(), 10u);
  EXPECT_NE(job_ports("node0", "torchrun-y")[0].port,
            job_ports("node0", "torchrun-x")[0].port);
}

class SeveralHostsTest : public ::testing::Test {
 protected:
  SeveralHostsTest() {
    char path[] = "/tmp/distwrap_test_XXXXXX";
    folder_ = mkdtemp(path);
  }
  ~SeveralHostsTest() override { std::filesystem::remove_all(folder_); }

  absl::StatusOr<Rendezvous> find(Variables variables, InitRequest request = {},
                                  bool with_key = true) {
    variables["DISTWRAP_RUN_DIR"] = folder_;
    if (with_key) request.key = *JobKey::read(std::string(64, 'a'));
    return find_rendezvous(request, Environment(std::move(variables)));
  }

  std::string folder_;
};

// As torchrun 2.9 sets them on the second of two nodes.
Variables torchrun(const std::string& rank, const std::string& master) {
  return {{"RANK", rank},
          {"WORLD_SIZE", "4"},
          {"LOCAL_RANK", "0"},
          {"LOCAL_WORLD_SIZE", "2"},
          {"GROUP_RANK", rank == "0" ? "0" : "1"},
          {"GROUP_WORLD_SIZE", "2"},
          {"TORCHELASTIC_RUN_ID", "run1"},
          {"TORCHELASTIC_RESTART_COUNT", "0"},
          {"MASTER_ADDR", master},
          {"MASTER_PORT", "29500"}};
}

TEST_F(SeveralHostsTest, TorchrunsRanksMeetBesideItsPort) {
  // 192.0.2.0/24 belongs to no network.
  const auto away = find(torchrun("2", "192.0.2.7"));
  ASSERT_TRUE(away.ok()) << away.status();
  EXPECT_THAT(away->address, StartsWith("tls://192.0.2.7:2"));
  EXPECT_EQ(away->hosted_path, "");
  EXPECT_FALSE(away->network.has_value());
  const auto first = find(torchrun("0", "127.0.0.1"));
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_THAT(first->address, StartsWith("unix:"));
  ASSERT_TRUE(first->network.has_value());
  EXPECT_EQ(first->network->ports.size(), 10u);
  for (const int port : first->network->ports) EXPECT_NE(port, 29500);
  const auto neighbour = find(torchrun("1", "127.0.0.1"));
  ASSERT_TRUE(neighbour.ok()) << neighbour.status();
  EXPECT_EQ(neighbour->address, first->address) << "no port on its own host";
  EXPECT_FALSE(neighbour->network.has_value());
}

// On every host a loopback address means that host itself, so ranks of another
// one look for rank 0 where it is not.
TEST_F(SeveralHostsTest, AnAddressThatHidesRankZeroIsNamed) {
  const auto place = find(torchrun("2", "127.0.0.1"));
  ASSERT_TRUE(place.ok()) << place.status();
  const absl::Status status =
      meet(*place, Deadline::after(absl::Milliseconds(50))).status();
  EXPECT_EQ(error_reason(status), Reason::kStoreUnreachable);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("where it runs on another host, '127.0.0.1' has to be "
                        "replaced"));
}

TEST_F(SeveralHostsTest, WithoutAKeyBothRemediesAreShown) {
  for (const std::string rank : {"0", "2"}) {
    const absl::Status status =
        find(torchrun(rank, "192.0.2.7"), {}, false).status();
    EXPECT_EQ(error_reason(status), Reason::kAuthFailed) << status;
    EXPECT_THAT(
        std::string(status.message()),
        AllOf(HasSubstr("--make-key"), HasSubstr("DISTWRAP_JOB_KEY=none")));
  }
}

TEST_F(SeveralHostsTest, SlurmsRanksMeetAtItsFirstNode) {
  const Variables slurm = {
      {"SLURM_PROCID", "3"},  {"SLURM_NTASKS", "4"},
      {"SLURM_LOCALID", "1"}, {"SLURM_NODEID", "1"},
      {"SLURM_NNODES", "2"},  {"SLURM_JOB_ID", "12"},
      {"SLURM_STEP_ID", "0"}, {"SLURM_STEP_NODELIST", "192.0.2.[8-9]"}};
  const auto place = find(slurm);
  ASSERT_TRUE(place.ok()) << place.status();
  EXPECT_THAT(place->address, StartsWith("tls://192.0.2.8:2"));
}

TEST_F(SeveralHostsTest, AnAddressIsServedByRankZero) {
  const Variables at = {{"DISTWRAP_STORE", "tls://127.0.0.1:29511"},
                        {"DISTWRAP_RANK", "0"},
                        {"DISTWRAP_WORLD_SIZE", "2"}};
  const auto first = find(at);
  ASSERT_TRUE(first.ok()) << first.status();
  ASSERT_TRUE(first->network.has_value());
  EXPECT_EQ(first->network->ports[0], 29511);
  EXPECT_EQ(error_reason(find(at, {}, false).status()), Reason::kAuthFailed);
  Variables bad = at;
  bad["DISTWRAP_STORE"] = "tls://nowhere";
  EXPECT_EQ(error_reason(find(bad).status()), Reason::kInvalidArgument);
}

TEST_F(SeveralHostsTest, AMethodReachesAnotherHost) {
  InitRequest request{
      .rank = 1, .world_size = 2, .init_method = "tcp://192.0.2.7:29500"};
  const auto away = find({}, request);
  ASSERT_TRUE(away.ok()) << away.status();
  EXPECT_EQ(away->address, "tls://192.0.2.7:29500");
  EXPECT_EQ(error_reason(find({}, request, false).status()),
            Reason::kAuthFailed);
  request.rank = 0;
  const absl::Status status = find({}, request).status();
  EXPECT_EQ(error_reason(status), Reason::kStoreUnreachable);
  EXPECT_THAT(std::string(status.message()), HasSubstr("192.0.2.7"));
  // A loopback address is this host alone: no port.
  request.init_method = "tcp://127.0.0.1:29500";
  EXPECT_FALSE(find({}, request)->network.has_value());
}

TEST_F(SeveralHostsTest, TheAddressForDataCanBeGiven) {
  Variables variables = torchrun("2", "192.0.2.7");
  variables["DISTWRAP_ADDRESS"] = "10.1.2.3";
  EXPECT_EQ(find(variables)->own_address, "10.1.2.3");
  // Ranks that meet in a store of the program's own need it as well.
  EXPECT_EQ(find(variables, {.rank = 0, .world_size = 2, .has_store = true})
                ->own_address,
            "10.1.2.3");
}

}  // namespace
}  // namespace distwrap::store
