// What `distwrap doctor` looks at, as it was found. Judging is apart
// (checks.h), so that any host can be described to it.
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

// `error` is empty where it worked.
struct MeetingFacts {
  std::string directory = {};  // in which run directories are made
  std::string directory_error = {};
  std::string store_error = {};  // of a store in it
};

struct MemoryFacts {
  std::string shm_error = {};  // why /dev/shm cannot be looked at
  uint64_t shm_bytes = 0, shm_free = 0;
  std::string memfd_error = {};
  // Of the control group; nothing where it sets none.
  std::optional<uint64_t> limit = {}, used = {};
};

struct InterfaceFacts {
  std::string name = {};
  bool is_up = false, is_loopback = false;
  std::vector<std::string> addresses = {};
};

struct NetworkFacts {
  std::string host = {};
  std::string host_error = {};  // why the name has no address
  std::vector<std::string> host_addresses = {};
  std::vector<InterfaceFacts> interfaces = {};
};

struct ClockFacts {
  std::string source = {};  // of the kernel; empty when it does not tell
  int64_t resolution_ns = 1;
  int64_t unix_seconds = 0;
};

struct HostFacts {
  MeetingFacts meeting;
  LimitFacts descriptors, processes, locked_memory;
  MemoryFacts memory;
  NetworkFacts network;
  ClockFacts clock;
  std::string registry_error = {};  // of the list of allowed plugins
  std::vector<BackendFacts> backends;
  std::vector<std::string> missing_folders;  // of DISTWRAP_PLUGIN_PATH
  std::vector<SettingFacts> settings;
  std::vector<base::Environment::Unknown> unknown;
  LaunchFacts launch;
};

HostFacts gather(const base::Environment& environment);

}  // namespace distwrap::cli

#endif  // DISTWRAP_TOOLS_CLI_DOCTOR_HOST_FACTS_H_
