// The facts about a host that `distwrap doctor` gathers. They are judged
// separately (checks.h), so that tests can describe any host.
//
// Threads: one.
#ifndef DISTWRAP_TOOLS_CLI_DOCTOR_HOST_FACTS_H_
#define DISTWRAP_TOOLS_CLI_DOCTOR_HOST_FACTS_H_

#include "info/facts.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace distwrap::cli {

struct LimitFacts {
  static constexpr uint64_t kUnlimited = UINT64_MAX;
  uint64_t soft = kUnlimited, hard = kUnlimited;
};

// An empty `error` means success.
struct MeetingFacts {
  std::string directory = {};  // the folder of run directories
  std::string directory_error = {};
  std::string store_error = {};  // error of a store in that folder
};

struct MemoryFacts {
  std::string shm_error = {};  // why /dev/shm cannot be inspected
  uint64_t shm_bytes = 0, shm_free = 0;
  std::string memfd_error = {};
  // The memory limit of the control group; nullopt without a limit.
  std::optional<uint64_t> limit = {}, used = {};
};

struct InterfaceFacts {
  std::string name = {};
  bool is_up = false, is_loopback = false;
  std::vector<std::string> addresses = {};
};

struct NetworkFacts {
  std::string host = {};
  std::string host_error = {};  // why the host's name has no address
  std::vector<std::string> host_addresses = {};
  std::vector<InterfaceFacts> interfaces = {};
};

struct ClockFacts {
  std::string source = {};  // the kernel's clock source; empty if unknown
  int64_t resolution_ns = 1;
  int64_t unix_seconds = 0;
};

struct GuardFacts {
  std::string path = {};  // the door's file; empty: this build has none
  struct Process {
    int64_t pid = 0;
    std::string program = {};
    bool asks = false;  // one of its sessions guards
    bool has_door = false;
    // The loader preloads nothing for programs with elevated privileges, and
    // there is none for static programs.
    bool is_privileged = false, is_static = false;
  };
  std::vector<Process> processes = {};  // ranks of the running jobs
};

struct HostFacts {
  MeetingFacts meeting;
  LimitFacts descriptors, processes, locked_memory;
  MemoryFacts memory;
  NetworkFacts network;
  ClockFacts clock;
  std::string registry_error = {};  // error of the list of allowed plugins
  std::vector<BackendFacts> backends;
  std::vector<std::string> missing_folders;  // folders of DISTWRAP_PLUGIN_PATH
                                             // that do not exist
  std::vector<SettingFacts> settings;
  bool allows_clear_data = true;  // DISTWRAP_CLEAR_DATA
  std::vector<base::Environment::Unknown> unknown;
  LaunchFacts launch;
  GuardFacts guard;
};

HostFacts gather(const base::Environment& environment);

}  // namespace distwrap::cli

#endif  // DISTWRAP_TOOLS_CLI_DOCTOR_HOST_FACTS_H_
