// Descriptions of healthy and unhealthy hosts, and their judgements.
#include "doctor/checks.h"
#include "doctor/guard_facts.h"
#include "doctor/report.h"

#include <absl/strings/str_cat.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <system_error>
#include <thread>
#include <unistd.h>

namespace distwrap::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

HostFacts healthy() {
  HostFacts facts;
  facts.meeting.directory = "/run/user/1000";
  facts.memory.shm_bytes = facts.memory.shm_free = uint64_t{1} << 30;
  facts.network.host = "alpha";
  facts.network.host_addresses = {"10.0.0.1"};
  facts.network.interfaces = {{"lo", true, true, {"127.0.0.1"}},
                              {"eth0", true, false, {"10.0.0.1"}}};
  facts.clock = {"tsc", 1, 1800000000};
  facts.backends = {{"gloo", "linked in", "1", {"cpu"}}};
  facts.settings = {{"DISTWRAP_LOG", "warning", "default"}};
  facts.guard = {"/lib/libdistwrap_guard.so", {{1, "train", true, true}}};
  return facts;
}

TEST(Doctor, AHealthyHostIsWell) {
  const std::vector<Finding> findings = judge(healthy());
  for (const Finding& finding : findings) {
    EXPECT_EQ(finding.health, Health::kOk) << finding.check << finding.what;
    EXPECT_FALSE(finding.what.empty()) << finding.check;
    EXPECT_TRUE(finding.fix.empty()) << finding.check;
  }
  EXPECT_EQ(worst(findings), Health::kOk);
  EXPECT_EQ(to_text(findings, true), "");
  EXPECT_THAT(to_text(findings, false), HasSubstr(" 0 warn, 0 fail"));
}

struct Fault {
  const char* name;
  Health health;
  const char* check;
  const char* said;
  std::function<void(HostFacts&)> make;
};

std::vector<Fault> faults() {
  const uint64_t mib = uint64_t{1} << 20;
  return {
      {"no run directory", Health::kFail, "run directory", "not private",
       [](HostFacts& f) { f.meeting.directory_error = "not private"; }},
      {"no store", Health::kFail, "store", "kStoreUnreachable",
       [](HostFacts& f) { f.meeting.store_error = "kStoreUnreachable"; }},
      {"a process without the door", Health::kWarn, "guard",
       "process 7 (train) guards without the door",
       [](HostFacts& f) {
         f.guard.processes = {{7, "train", true}};
       }},
      {"a privileged program", Health::kWarn, "guard",
       "elevated privileges, so that nothing is preloaded",
       [](HostFacts& f) {
         f.guard.processes = {{7, "train", false, false, true}};
       }},
      {"a static program", Health::kWarn, "guard", "is a static program",
       [](HostFacts& f) {
         f.guard.processes = {{7, "train", true, false, false, true}};
       }},
      {"few descriptors", Health::kWarn, "descriptors", "at most 256",
       [](HostFacts& f) {
         f.descriptors = {256, 4096};
       }},
      {"hardly any descriptor", Health::kFail, "descriptors", "at most 63",
       [](HostFacts& f) {
         f.descriptors = {63, 63};
       }},
      {"few processes", Health::kWarn, "processes", "at most 511",
       [](HostFacts& f) {
         f.processes = {511, 511};
       }},
      {"hardly any process", Health::kFail, "processes", "at most 31",
       [](HostFacts& f) {
         f.processes = {31, 100};
       }},
      {"no shared memory", Health::kWarn, "shared memory", "errno 2",
       [](HostFacts& f) { f.memory.shm_error = "errno 2"; }},
      {"shared memory of a container", Health::kWarn, "shared memory",
       "63 MiB free of 64 MiB",
       [=](HostFacts& f) {
         f.memory.shm_bytes = 64 * mib;
         f.memory.shm_free = 64 * mib - 1;
       }},
      {"no memfd", Health::kWarn, "anonymous files", "errno 38",
       [](HostFacts& f) { f.memory.memfd_error = "errno 38"; }},
      {"small memory limit", Health::kWarn, "memory limit", "256 MiB",
       [=](HostFacts& f) { f.memory.limit = 256 * mib; }},
      {"memory used up", Health::kWarn, "memory limit", "in use",
       [=](HostFacts& f) {
         f.memory.limit = 2048 * mib;
         f.memory.used = 2047 * mib;
       }},
      {"more memory used than allowed", Health::kWarn, "memory limit",
       "2.0 GiB in use",
       [=](HostFacts& f) {
         f.memory.limit = 2048 * mib;
         f.memory.used = 4096 * mib;
       }},
      {"host without address", Health::kWarn, "host name", "not known",
       [](HostFacts& f) {
         f.network.host_error = "not known";
         f.network.host_addresses.clear();
       }},
      {"loopback name", Health::kWarn, "host name", "127.0.1.1",
       [](HostFacts& f) {
         f.network.host_addresses = {"127.0.1.1", "::1"};
       }},
      {"loopback down", Health::kFail, "loopback", "no loopback interface",
       [](HostFacts& f) { f.network.interfaces[0].is_up = false; }},
      {"loopback without address", Health::kFail, "loopback",
       "no loopback interface",
       [](HostFacts& f) { f.network.interfaces[0].addresses.clear(); }},
      {"no interface at all", Health::kFail, "loopback",
       "no loopback interface",
       [](HostFacts& f) { f.network.interfaces.clear(); }},
      {"refused plugin", Health::kWarn, "plugins", "writable by others",
       [](HostFacts& f) {
         f.backends.push_back({"x", "/x.so", "", {}, "writable by others"});
       }},
      {"data in the clear", Health::kWarn, "data", "DISTWRAP_CLEAR_DATA",
       [](HostFacts& f) { f.allows_clear_data = false; }},
      {"no backend", Health::kFail, "plugins", "0 backends",
       [](HostFacts& f) { f.backends.clear(); }},
      {"bad list of plugins", Health::kFail, "plugins", "line 3",
       [](HostFacts& f) { f.registry_error = "line 3"; }},
      {"missing plugin folder", Health::kWarn, "plugins", "/nowhere",
       [](HostFacts& f) { f.missing_folders = {"/nowhere"}; }},
      {"bad setting", Health::kFail, "settings", "'loud'",
       [](HostFacts& f) { f.settings[0].error = "got 'loud'"; }},
      {"unknown setting", Health::kWarn, "settings", "DISTWRAP_LOGG",
       [](HostFacts& f) {
         f.unknown = {{"DISTWRAP_LOGG", "DISTWRAP_LOG"}};
       }},
      {"half-set launcher", Health::kFail, "launcher", "RANK is unset",
       [](HostFacts& f) {
         f.launch.error = "RANK is unset";
         f.launch.is_wrong = true;
       }},
      {"nested launcher", Health::kWarn, "launcher", "ignored: Slurm",
       [](HostFacts& f) {
         f.launch.launcher = "Open MPI";
         f.launch.ignored = {{"Slurm: rank 0 of 1", false}};
       }},
      {"slow clock", Health::kWarn, "clock", "hpet",
       [](HostFacts& f) { f.clock.source = "hpet"; }},
      {"coarse clock", Health::kWarn, "clock", "4000000 ns",
       [](HostFacts& f) { f.clock.resolution_ns = 4000000; }},
      {"wrong date", Health::kWarn, "clock", "before 2024",
       [](HostFacts& f) { f.clock.unix_seconds = 0; }},
  };
}

TEST(Doctor, EachFaultIsFoundAloneWithReasonAndFix) {
  EXPECT_GE(faults().size(), 15u);
  for (const Fault& fault : faults()) {
    SCOPED_TRACE(fault.name);
    HostFacts facts = healthy();
    fault.make(facts);
    std::vector<Finding> bad;
    for (const Finding& finding : judge(facts))
      if (finding.health != Health::kOk) bad.push_back(finding);
    ASSERT_FALSE(bad.empty());
    EXPECT_EQ(bad[0].health, fault.health);
    EXPECT_EQ(bad[0].check, fault.check);
    EXPECT_THAT(bad[0].what, HasSubstr(fault.said));
    for (const Finding& finding : bad) {
      EXPECT_EQ(finding.check, fault.check) << finding.what;
      EXPECT_FALSE(finding.why.empty());
      EXPECT_FALSE(finding.fix.empty());
    }
    EXPECT_EQ(worst(judge(facts)), fault.health);
  }
}

TEST(Doctor, WhatIsHarmlessIsNoWarning) {
  HostFacts facts = healthy();
  facts.launch.launcher = "torchrun";
  facts.launch.ignored = {
      {"Slurm: rank 0 of 2, which describes the node", true}};
  facts.network.interfaces.resize(1);
  facts.memory.limit = uint64_t{8} << 30;
  facts.network.host_addresses = {"127.0.1.1", "10.0.0.1"};
  EXPECT_EQ(worst(judge(facts)), Health::kOk);
}

TEST(Doctor, TheFixOfALimitDependsOnTheHardOne) {
  HostFacts facts = healthy();
  facts.descriptors = {256, 4096};
  EXPECT_THAT(to_text(judge(facts), true), HasSubstr("fix: ulimit -n 1024"));
  facts.descriptors = {256, 512};
  EXPECT_THAT(to_text(judge(facts), true), HasSubstr("ask an administrator"));
}

TEST(Doctor, QuietLeavesOutWhatIsWell) {
  HostFacts facts = healthy();
  facts.clock.source = "hpet";
  const std::vector<Finding> findings = judge(facts);
  EXPECT_THAT(to_text(findings, true), Not(HasSubstr("ok ")));
  EXPECT_THAT(to_text(findings, true), HasSubstr("warn  clock"));
  const JsonObject all = to_json(findings, false);
  const JsonObject quiet = to_json(findings, true);
  EXPECT_EQ(std::get<JsonArray>(quiet.back().second.value).size(), 1u);
  EXPECT_EQ(std::get<JsonArray>(all.back().second.value).size(),
            findings.size());
}

TEST(Doctor, TheRealHostIsDescribed) {
  const HostFacts facts =
      gather(base::Environment(base::Environment::Variables{}));
  EXPECT_EQ(facts.meeting.directory_error, "");
  EXPECT_EQ(facts.meeting.store_error, "");
  EXPECT_FALSE(facts.network.interfaces.empty());
  EXPECT_GT(facts.clock.unix_seconds, 0);
  EXPECT_GT(facts.descriptors.soft, 0u);
  EXPECT_FALSE(facts.backends.empty());
}

TEST(Doctor, ARunDirectoryThatCannotBeIsReported) {
  const HostFacts facts = gather(base::Environment(base::Environment::Variables{
      {"DISTWRAP_RUN_DIR", "/proc/nowhere"},
      {"DISTWRAP_PLUGIN_PATH", "/proc/none:/proc"}}));
  EXPECT_THAT(facts.meeting.directory_error, HasSubstr("kRunDirectory"));
  EXPECT_THAT(facts.missing_folders, testing::ElementsAre("/proc/none"));
}

// A program that runs meanwhile.
class Running {
 public:
  explicit Running(const std::string& file) : pid_(fork()) {
    if (pid_ == 0) {
      unsetenv("LD_PRELOAD");  // the tests may run behind the guard's door
      execl(file.c_str(), file.c_str(), "60", nullptr);
      _exit(127);
    }
    std::error_code none;
    const std::string exe = absl::StrCat("/proc/", pid_, "/exe");
    for (int i = 0; i < 500; ++i) {
      if (std::filesystem::read_symlink(exe, none) ==
          std::filesystem::canonical(file, none))
        return;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    ADD_FAILURE() << file << " does not start";
  }
  ~Running() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;
  GuardFacts::Process facts() const { return guarded_process(pid_); }

 private:
  const pid_t pid_;
};

TEST(Doctor, KnowsProgramsForWhichNothingIsPreloaded) {
  const GuardFacts::Process plain = Running("/bin/sleep").facts();
  EXPECT_FALSE(plain.is_static || plain.is_privileged || plain.has_door);
  const GuardFacts::Process fixed = Running(STATIC_PROGRAM).facts();
  EXPECT_TRUE(fixed.is_static);
  EXPECT_FALSE(fixed.is_privileged);
  EXPECT_EQ(fixed.program, "static_program");
  if (geteuid() != 0) return;  // only root gives a program to another user
  const std::string file = absl::StrCat("/tmp/distwrap-suid-", getpid());
  std::filesystem::copy_file("/bin/sleep", file);
  EXPECT_EQ(chown(file.c_str(), 65534, 65534), 0);
  EXPECT_EQ(chmod(file.c_str(), 04755), 0);
  EXPECT_TRUE(Running(file).facts().is_privileged);
  std::filesystem::remove(file);
}

}  // namespace
}  // namespace distwrap::cli
