// Ranks on different hosts: by a hint, and in network namespaces that a virtual
// cable connects.
#include "messages.h"
#include "windows.h"

#include <gtest/gtest.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <sched.h>
#include <string>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace distwrap::ucx_test {
namespace {

using conformance::ProcessPlan;
using conformance::ProcessRanks;

// Kills rank 0 after the two ranks have met, while it waits for ever; the other
// one has to end well.
void kill_first(ProcessRanks& ranks) {
  while (ranks.words()[0] < 2)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  kill(ranks.pid(0), SIGKILL);
  EXPECT_EQ(ranks.wait(0), -1);
  EXPECT_EQ(ranks.wait(1), 0);
}

// Rank 0 is killed in the middle; only UCX tells the other.
void kill_one(const ProcessPlan& plan) {
  ProcessRanks ranks(plan, 2, [](Rank& rank) {
    const int exchanged = exchange(rank);
    Bytes data(64);
    dw_error error = {};
    meet(rank, 0);
    if (exchanged != 0) return 1;
    if (rank.rank == 0) pause();
    const int32_t code = receive(rank, 0, data, &error);
    return code == DW_UNAVAILABLE && error.reason == DW_REASON_PEER_LOST &&
                   error.peer == 0
               ? 0
               : 2;
  });
  kill_first(ranks);
}

// Kills the owner of a window: one rank waits for its signal, one writes to it.
void kill_owner(const ProcessPlan& plan, bool waits) {
  ProcessRanks ranks(plan, 2, [waits](Rank& rank) {
    Numbers numbers(rank, 1000);
    if (!numbers.ok()) return 1;
    dw_error error = {};
    const Numbers::Values values(1000, 7);
    if (numbers.put_signal(1 - rank.rank, 0, values, 1, &error) != DW_DONE ||
        numbers.wait_signal(1, &error) != DW_DONE)
      return 2;
    meet(rank, 0);
    if (rank.rank == 0) pause();
    int32_t code = waits ? numbers.wait_signal(2, &error) : DW_DONE;
    while (code == DW_DONE) {
      code = numbers.put(0, 0, values, &error);
      if (code == DW_DONE) code = numbers.flush(0, &error);
    }
    return code == DW_UNAVAILABLE && error.reason == DW_REASON_PEER_LOST &&
                   error.peer == 0
               ? 0
               : 3;
  });
  kill_first(ranks);
}

TEST(UcxHosts, ForcedApartExchangeMessages) {
  ProcessRanks ranks({.table = ucx, .hints = host_of_its_own}, 3, exchange);
  for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(ranks.wait(rank), 0);
}

TEST(UcxHosts, ForcedApartHearOfADeath) {
  kill_one({.table = ucx, .hints = host_of_its_own});
}

TEST(UcxHosts, ForcedApartWriteToWindows) {
  ProcessRanks ranks({.table = ucx, .hints = host_of_its_own}, 3, write_around);
  for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(ranks.wait(rank), 0);
}

TEST(UcxHosts, ForcedApartHearOfAnOwnersDeath) {
  for (const bool waits : {false, true})
    kill_owner({.table = ucx, .hints = host_of_its_own}, waits);
}

// Two namespaces with a virtual cable between them for two children of the
// test, and a third child that connects them. (No thread of the test enters
// them: a child that is forked meanwhile could inherit a held lock.)
class Namespaces : public ::testing::Test {
 protected:
  void SetUp() override {
    const pid_t pid = fork();
    if (pid == 0) _exit(unshare_all() ? 0 : 1);
    int status = 0;
    waitpid(pid, &status, 0);
    if (status != 0) GTEST_SKIP() << "no network namespaces are permitted";
    if (std::system("ip -V >/dev/null 2>&1") != 0)
      GTEST_SKIP() << "ip (iproute2) is not installed";
    shared_ = static_cast<Shared*>(mmap(nullptr, sizeof(Shared),
                                        PROT_READ | PROT_WRITE,
                                        MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    cable_ = fork();
    ASSERT_GE(cable_, 0);
    if (cable_ == 0) _exit(lay_cable() ? 0 : 1);
  }
  void TearDown() override {
    if (shared_ == nullptr) return;
    shared_->over = true;
    int status = 1;
    waitpid(cable_, &status, 0);
    EXPECT_EQ(status, 0);
    munmap(shared_, sizeof(Shared));
  }

  ProcessPlan plan() {
    return {.table = ucx,
            .prepare = [this](int rank) { return enter(rank); },
            .own_hosts = true};
  }

 private:
  struct Shared {
    std::atomic<int> pids[2];
    std::atomic<bool> laid, over;
  };

  // UCX finds interfaces in /sys, which shows those of the namespace in which
  // it was mounted.
  static bool unshare_all() {
    return unshare(CLONE_NEWNET | CLONE_NEWNS) == 0 &&
           mount("", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
           mount("sysfs", "/sys", "sysfs", 0, nullptr) == 0;
  }

  // Runs in the child.
  bool enter(int rank) {
    if (!unshare_all()) return false;
    shared_->pids[rank] = getpid();
    while (!shared_->laid && !shared_->over) sched_yield();
    if (!shared_->laid) return false;
    const std::string end = "dwucx" + std::to_string(rank);
    // UCX ignores an interface whose far end is not up yet.
    const std::string command = "ip link set lo up && ip addr add 10.77.13." +
                                std::to_string(rank + 1) + "/24 dev " + end +
                                " && ip link set " + end +
                                " up && until ip link show dev " + end +
                                " | grep -q LOWER_UP; do sleep 0.01; done";
    return std::system(command.c_str()) == 0;
  }

  bool lay_cable() {
    while (!shared_->over && (shared_->pids[0] == 0 || shared_->pids[1] == 0))
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    if (shared_->over) return true;
    const auto pid = [this](int rank) {
      return std::to_string(shared_->pids[rank].load());
    };
    const std::string command = "ip link add dwucx0 netns " + pid(0) +
                                " type veth peer name dwucx1 netns " + pid(1);
    const bool laid = std::system(command.c_str()) == 0;
    (laid ? shared_->laid : shared_->over) = true;
    return laid;
  }

  Shared* shared_ = nullptr;
  pid_t cable_ = -1;
};

TEST_F(Namespaces, ExchangeMessages) {
  ProcessRanks ranks(plan(), 2, exchange);
  EXPECT_EQ(ranks.wait(0), 0);
  EXPECT_EQ(ranks.wait(1), 0);
}

TEST_F(Namespaces, HearOfADeath) { kill_one(plan()); }

TEST_F(Namespaces, WriteToWindows) {
  ProcessRanks ranks(plan(), 2, write_around);
  EXPECT_EQ(ranks.wait(0), 0);
  EXPECT_EQ(ranks.wait(1), 0);
}

TEST_F(Namespaces, HearOfTheDeathOfWhomTheyWriteTo) {
  kill_owner(plan(), false);
}

TEST_F(Namespaces, HearOfTheDeathOfWhomTheyWaitFor) {
  kill_owner(plan(), true);
}

}  // namespace
}  // namespace distwrap::ucx_test
