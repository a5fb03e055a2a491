#include "bench/report.h"

#include <absl/strings/ascii.h>
#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_split.h>
#include <absl/strings/string_view.h>
#include <absl/time/clock.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sched.h>
#include <sys/utsname.h>
#include <unistd.h>

namespace distwrap::bench {
namespace {

std::string cpu_model() {
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line);) {
    if (!absl::StartsWith(line, "model name")) continue;
    const size_t colon = line.find(':');
    if (colon == std::string::npos) break;
    return std::string(absl::StripAsciiWhitespace(line.substr(colon + 1)));
  }
  return "unknown processor";
}

int usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set);
  return static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
}

}  // namespace

Machine this_machine() {
  Machine machine;
  machine.cpu = cpu_model();
  machine.cores = usable_cores();
  utsname name{};
  if (uname(&name) == 0) {
    machine.kernel = absl::StrCat(name.sysname, " ", name.release);
  }
  machine.date =
      absl::FormatTime("%Y-%m-%d %H:%M UTC", absl::Now(), absl::UTCTimeZone());
  double load = 0;
  if (getloadavg(&load, 1) == 1) machine.load = load;
  machine.version = DISTWRAP_VERSION;
  machine.build_type = DISTWRAP_BUILD_TYPE;
#ifdef __clang__
  machine.compiler = absl::StrCat("clang ", __clang_major__, ".",
                                  __clang_minor__, ".", __clang_patchlevel__);
#else
  machine.compiler = absl::StrCat("gcc ", __VERSION__);
#endif
  for (char** entry = environ; *entry != nullptr; ++entry) {
    if (!absl::StartsWith(*entry, "DISTWRAP_")) continue;
    const std::pair<std::string, std::string> pair =
        absl::StrSplit(*entry, absl::MaxSplits('=', 1));
    machine.environment.insert(pair);
  }
  return machine;
}

int64_t Report::wrong() const {
  int64_t total = 0;
  for (const Row& row : rows) total += row.wrong;
  return total;
}

std::vector<Row> Report::of(Operation op) const {
  std::vector<Row> some;
  for (const Row& row : rows) {
    if (row.spec.op == op) some.push_back(row);
  }
  return some;
}

std::vector<Operation> Report::ops() const {
  std::vector<Operation> some;
  for (const Row& row : rows) {
    if (std::find(some.begin(), some.end(), row.spec.op) == some.end()) {
      some.push_back(row.spec.op);
    }
  }
  return some;
}

std::string describe(const Machine& machine) {
  return absl::StrCat(machine.cpu, ", ", machine.cores, " core",
                      machine.cores == 1 ? "" : "s", ", ", machine.kernel,
                      ", distwrap ", machine.version, " (", machine.compiler,
                      ", ", machine.build_type, ")");
}

}  // namespace distwrap::bench
