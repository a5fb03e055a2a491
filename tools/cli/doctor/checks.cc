#include "doctor/checks.h"

#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>
#include <absl/strings/str_join.h>

#include <algorithm>

namespace distwrap::cli {
namespace {

using Findings = std::vector<Finding>;

constexpr uint64_t kMiB = uint64_t{1} << 20;

std::string bytes(uint64_t n) {
  if (n == LimitFacts::kUnlimited) return "unlimited";
  if (n >= 1024 * kMiB)
    return absl::StrFormat(
        "%.1f GiB", static_cast<double>(n) / static_cast<double>(1024 * kMiB));
  if (n >= kMiB) return absl::StrCat(n / kMiB, " MiB");
  return absl::StrCat(n / 1024, " KiB");
}

std::string count(uint64_t n) {
  return n == LimitFacts::kUnlimited ? "unlimited" : absl::StrCat(n);
}

void check_meeting(const MeetingFacts& facts, Findings* findings) {
  if (!facts.directory_error.empty()) {
    findings->push_back(
        {Health::kFail, "run directory", facts.directory_error,
         "the sockets by which ranks meet lie there",
         "set DISTWRAP_RUN_DIR to a short absolute path that only this user "
         "can write"});
    return;
  }
  findings->push_back({Health::kOk, "run directory",
                       absl::StrCat("made in ", facts.directory)});
  if (facts.store_error.empty())
    findings->push_back({Health::kOk, "store", "serves and answers"});
  else
    findings->push_back(
        {Health::kFail, "store", facts.store_error,
         "ranks find each other over it",
         "allow Unix sockets in the run directory, or set DISTWRAP_RUN_DIR to "
         "a folder that has them"});
}

// A limit for which jobs need `good`, and below `least` of which they cannot
// start.
void check_limit(const char* check, const char* option, const LimitFacts& limit,
                 uint64_t least, uint64_t good, const char* why,
                 Findings* findings) {
  const std::string what = absl::StrCat(
      "at most ", count(limit.soft), " (hard limit ", count(limit.hard), ")");
  if (limit.soft >= good) {
    findings->push_back({Health::kOk, check, what});
    return;
  }
  const std::string fix =
      limit.hard >= good
          ? absl::StrCat("ulimit ", option, " ", good)
          : absl::StrCat("ask an administrator for a hard limit of ", good,
                         ", then: ulimit ", option, " ", good);
  findings->push_back({limit.soft < least ? Health::kFail : Health::kWarn,
                       check, what, why, fix});
}

void check_memory(const HostFacts& facts, Findings* findings) {
  constexpr uint64_t kSmall = 64 * kMiB;
  const MemoryFacts& memory = facts.memory;
  const char* const why = "engines that share memory on a host use it";
  // This version locks no memory.
  findings->push_back(
      {Health::kOk, "locked memory",
       absl::StrCat(bytes(facts.locked_memory.soft),
                    "; engines of network cards want it unlimited")});
  if (!memory.shm_error.empty())
    findings->push_back({Health::kWarn, "shared memory",
                         absl::StrCat("/dev/shm: ", memory.shm_error), why,
                         "mount -t tmpfs tmpfs /dev/shm"});
  else if (memory.shm_free < kSmall)
    findings->push_back(
        {Health::kWarn, "shared memory",
         absl::StrCat("/dev/shm has ", bytes(memory.shm_free), " free of ",
                      bytes(memory.shm_bytes)),
         why,
         "remove what is left there, or make it larger: containers take "
         "--shm-size"});
  else
    findings->push_back({Health::kOk, "shared memory",
                         absl::StrCat("/dev/shm has ", bytes(memory.shm_free),
                                      " free of ", bytes(memory.shm_bytes))});
  if (memory.memfd_error.empty())
    findings->push_back({Health::kOk, "anonymous files", "memfd_create works"});
  else
    findings->push_back({Health::kWarn, "anonymous files",
                         absl::StrCat("memfd_create: ", memory.memfd_error),
                         why, "allow memfd_create in the sandbox"});
  if (!memory.limit.has_value()) {
    findings->push_back({Health::kOk, "memory limit", "none"});
    return;
  }
  const uint64_t used = std::min(memory.used.value_or(0), *memory.limit);
  const std::string what =
      absl::StrCat(bytes(*memory.limit), ", ", bytes(used), " in use");
  // Other processes of the group may free memory, so this is no failure.
  const bool tight =
      *memory.limit < 512 * kMiB || *memory.limit - used < *memory.limit / 20;
  if (tight)
    findings->push_back({Health::kWarn, "memory limit", what,
                         "the kernel kills ranks that go beyond it",
                         "raise the limit of the control group"});
  else
    findings->push_back({Health::kOk, "memory limit", what});
}

bool is_loopback(const std::string& address) {
  return absl::StartsWith(address, "127.") || address == "::1";
}

void check_network(const NetworkFacts& facts, Findings* findings) {
  const auto& all = facts.interfaces;
  const auto lo = std::find_if(
      all.begin(), all.end(),
      [](const InterfaceFacts& i) { return i.is_loopback && i.is_up; });
  if (lo == all.end() || lo->addresses.empty())
    findings->push_back(
        {Health::kFail, "loopback", "no loopback interface is up",
         "ranks on one host talk over it", "ip link set lo up"});
  else
    findings->push_back({Health::kOk, "loopback",
                         absl::StrCat(lo->name, ", ", lo->addresses.front())});

  std::vector<std::string> others;
  for (const InterfaceFacts& i : all)
    if (i.is_up && !i.is_loopback && !i.addresses.empty())
      others.push_back(absl::StrCat(i.name, " ", i.addresses.front()));
  findings->push_back(
      {Health::kOk, "interfaces",
       others.empty() ? "none to other hosts" : absl::StrJoin(others, ", ")});

  const char* const why =
      "engines and launchers find hosts by their names; jobs on one host do "
      "not need it";
  if (!facts.host_error.empty())
    findings->push_back(
        {Health::kWarn, "host name",
         absl::StrCat("'", facts.host, "' has no address: ", facts.host_error),
         why,
         "add the name with the address of an interface to "
         "/etc/hosts"});
  else if (std::all_of(facts.host_addresses.begin(), facts.host_addresses.end(),
                       is_loopback))
    findings->push_back(
        {Health::kWarn, "host name",
         absl::StrCat("'", facts.host, "' leads to the loopback address ",
                      absl::StrJoin(facts.host_addresses, ", ")),
         "other hosts cannot reach this one by it; jobs on one host do not "
         "need it",
         "give the name the address of an interface in /etc/hosts"});
  else
    findings->push_back(
        {Health::kOk, "host name",
         absl::StrCat(facts.host, ", ", facts.host_addresses.front())});
}

void check_plugins(const HostFacts& facts, Findings* findings) {
  if (!facts.registry_error.empty())
    findings->push_back({Health::kFail, "plugins", facts.registry_error,
                         "no plugin is loaded without this list",
                         "correct the file that DISTWRAP_PLUGIN_ALLOW names"});
  for (const std::string& folder : facts.missing_folders)
    findings->push_back(
        {Health::kWarn, "plugins", absl::StrCat(folder, " is not a folder"),
         "no backend is found there", "correct DISTWRAP_PLUGIN_PATH"});
  size_t loadable = 0;
  for (const BackendFacts& backend : facts.backends) {
    if (backend.refusal.empty())
      ++loadable;
    else
      findings->push_back({Health::kWarn, "plugins", backend.refusal,
                           "jobs that ask for this backend end",
                           "do what the message says, or remove the file"});
  }
  if (facts.registry_error.empty())
    findings->push_back(
        {loadable > 0 ? Health::kOk : Health::kFail, "plugins",
         absl::StrCat(loadable, loadable == 1 ? " backend" : " backends",
                      " can be used"),
         loadable > 0 ? "" : "there is nothing to move bytes with",
         loadable > 0 ? "" : "install distwrap again"});
}

void check_data(const HostFacts& facts, Findings* findings) {
  std::vector<std::string> names;
  for (const BackendFacts& backend : facts.backends)
    if (backend.protects_data) names.push_back(backend.name);
  if (!names.empty())
    findings->push_back({Health::kOk, "data",
                         absl::StrCat("between hosts it is encrypted by ",
                                      absl::StrJoin(names, ", "), " alone")});
  else if (facts.allows_clear_data)
    findings->push_back({Health::kOk, "data",
                         "no backend encrypts what it sends to other hosts"});
  else
    findings->push_back({Health::kWarn, "data",
                         "no backend encrypts what it sends to other hosts, "
                         "and DISTWRAP_CLEAR_DATA asks for it",
                         "jobs on several hosts end when they start",
                         "unset DISTWRAP_CLEAR_DATA on a network that nobody "
                         "else reaches"});
}

void check_environment(const HostFacts& facts, Findings* findings) {
  const size_t before = findings->size();
  for (const SettingFacts& setting : facts.settings)
    if (!setting.error.empty())
      findings->push_back({Health::kFail, "settings", setting.error,
                           "start-up ends with this error",
                           absl::StrCat("correct or unset ", setting.name)});
  for (const auto& unknown : facts.unknown)
    findings->push_back(
        {Health::kWarn, "settings",
         absl::StrCat(unknown.name, " is not a setting and has no effect"),
         "it was meant to do something",
         absl::StrCat("unset it, or use ", unknown.nearest)});
  if (findings->size() == before)
    findings->push_back({Health::kOk, "settings", "all are known and usable"});

  const LaunchFacts& launch = facts.launch;
  if (launch.is_wrong)
    findings->push_back({Health::kFail, "launcher", launch.error,
                         "a rank would not know its number",
                         "unset the variables that an earlier start left, or "
                         "set DISTWRAP_LAUNCHER"});
  else
    findings->push_back({Health::kOk, "launcher",
                         launch.launcher.empty() ? "none" : launch.launcher});
  for (const LaunchFacts::Ignored& other : launch.ignored) {
    const std::string what = absl::StrCat("ignored: ", other.text);
    if (other.describes_node)
      findings->push_back({Health::kOk, "launcher", what});
    else
      findings->push_back(
          {Health::kWarn, "launcher", what,
           "two launchers set their variables, and those of the inner one "
           "count",
           "to use the other one, name it in DISTWRAP_LAUNCHER"});
  }
}

void check_clock(const ClockFacts& facts, Findings* findings) {
  constexpr int64_t k2024 = 1704067200;
  const bool is_slow = facts.source == "hpet" || facts.source == "acpi_pm" ||
                       facts.source == "jiffies" || facts.resolution_ns > 1000;
  const std::string what =
      absl::StrCat(facts.source.empty() ? "unknown source" : facts.source, ", ",
                   facts.resolution_ns, " ns");
  if (is_slow)
    findings->push_back({Health::kWarn, "clock", what,
                         "reading the time takes microseconds, which distorts "
                         "measurements and delays deadlines",
                         "choose tsc as the clock source of the kernel"});
  else
    findings->push_back({Health::kOk, "clock", what});
  if (facts.unix_seconds < k2024)
    findings->push_back({Health::kWarn, "clock", "the date is before 2024",
                         "logs of several hosts cannot be compared",
                         "set the clock, best by NTP"});
}

void check_guard(const GuardFacts& facts, Findings* findings) {
  const size_t before = findings->size();
  size_t loaded = 0;
  for (const GuardFacts::Process& one : facts.processes) {
    loaded += one.has_door ? 1 : 0;
    if (one.has_door || !(one.asks || one.is_privileged || one.is_static))
      continue;
    const std::string who =
        absl::StrCat("process ", one.pid, " (", one.program, ") ");
    const char* const why =
        "direct calls of NCCL, MPI, UCX and Gloo are not refused there";
    if (one.is_static)
      findings->push_back({Health::kWarn, "guard",
                           absl::StrCat(who, "is a static program"), why,
                           "link the program with shared libraries"});
    else if (one.is_privileged)
      findings->push_back(
          {Health::kWarn, "guard",
           absl::StrCat(who,
                        "has elevated privileges, so that nothing is "
                        "preloaded"),
           why, "start the program without set-user-id or capabilities"});
    else
      findings->push_back({Health::kWarn, "guard",
                           absl::StrCat(who, "guards without the door"), why,
                           "start the job by `distwrap run --guard`"});
  }
  if (facts.path.empty())
    findings->push_back({Health::kOk, "guard", "this build has no door"});
  else if (findings->size() == before)
    findings->push_back(
        {Health::kOk, "guard",
         facts.processes.empty()
             ? "no job of yours runs whose processes could be looked at"
             : absl::StrCat("the door is loaded in ", loaded, " of ",
                            facts.processes.size(), " processes of jobs")});
}

}  // namespace

std::vector<Finding> judge(const HostFacts& facts) {
  Findings findings;
  check_meeting(facts.meeting, &findings);
  check_limit("descriptors", "-n", facts.descriptors, 64, 1024,
              "each rank has a socket to every other and to the store",
              &findings);
  check_limit("processes", "-u", facts.processes, 32, 512,
              "ranks and their threads count against it", &findings);
  check_memory(facts, &findings);
  check_network(facts.network, &findings);
  check_plugins(facts, &findings);
  check_data(facts, &findings);
  check_environment(facts, &findings);
  check_clock(facts.clock, &findings);
  check_guard(facts.guard, &findings);
  return findings;
}

Health worst(const std::vector<Finding>& findings) {
  Health health = Health::kOk;
  for (const Finding& finding : findings)
    health = std::max(health, finding.health);
  return health;
}

const char* health_name(Health health) {
  switch (health) {
    case Health::kOk:
      return "ok";
    case Health::kWarn:
      return "warn";
    case Health::kFail:
      return "fail";
  }
  return "?";
}

}  // namespace distwrap::cli
