// The machine of a run and the software on it.
#ifndef DISTWRAP_TOOLS_CLI_BENCH_MACHINE_H_
#define DISTWRAP_TOOLS_CLI_BENCH_MACHINE_H_

#include <absl/strings/string_view.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace distwrap::bench {

struct Cache {
  int level = 0;
  std::string type = {};  // "Data", "Instruction", "Unified"
  int64_t bytes = 0;
};

struct Machine {
  std::string cpu = {};
  int cores = 0;  // cores that this process may use
  std::vector<Cache> caches = {};
  int64_t memory_bytes = 0;
  std::string kernel = {};
  std::string date = {};        // "2025-11-21 17:40 UTC"
  double load = 0;              // load of the last minute, at the start
  std::string version = {};     // version of distwrap
  std::string commit = {};      // output of git describe; "" outside of git
  std::string compiler = {};    // "gcc 12.2.0"
  std::string flags = {};       // flags of the compiler
  std::string build_type = {};  // "Release"
  std::map<std::string, std::string> environment = {};  // DISTWRAP_*
};

Machine this_machine();

// The caches of the first core.
std::vector<Cache> caches();

// Parses "32K", the form in which the kernel writes cache sizes; 0 for other
// texts.
int64_t parse_cache_size(absl::string_view text);

// "AMD EPYC, 2 cores, Linux 6.1, distwrap 0.1.0 (gcc 12.2.0, Release)".
std::string describe(const Machine& machine);

// Disturbances of this process and of the machine since a moment.
struct Noise {
  double steal_percent = 0;          // time of all cores that other guests took
  int64_t involuntary_switches = 0;  // switches of this process
};

class NoiseMeter {
 public:
  NoiseMeter();
  Noise read() const;

 private:
  double steal_ = 0, total_ = 0;
  int64_t switches_ = 0;
};

}  // namespace distwrap::bench

#endif  // DISTWRAP_TOOLS_CLI_BENCH_MACHINE_H_
