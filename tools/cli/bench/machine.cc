#include "bench/machine.h"

#include "bench/build_info.h"

#include <absl/strings/ascii.h>
#include <absl/strings/match.h>
#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_split.h>
#include <absl/time/clock.h>
#include <absl/time/time.h>

#include <cstdlib>
#include <fstream>
#include <sched.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>
#include <utility>

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

std::string first_line(const std::string& path) {
  std::ifstream in(path);
  std::string line;
  std::getline(in, line);
  return line;
}

struct Ticks {
  double steal = 0, total = 0;
};

// The sums of user nice system idle iowait irq softirq steal over all cores.
Ticks cpu_ticks() {
  Ticks ticks;
  const std::vector<std::string> words =
      absl::StrSplit(first_line("/proc/stat"), ' ', absl::SkipEmpty());
  for (size_t i = 1; i < words.size() && i <= 8; ++i) {
    double value = 0;
    if (!absl::SimpleAtod(words[i], &value)) break;
    ticks.total += value;
    if (i == 8) ticks.steal = value;
  }
  return ticks;
}

int64_t involuntary_switches() {
  rusage usage{};
  return getrusage(RUSAGE_SELF, &usage) == 0 ? usage.ru_nivcsw : 0;
}

}  // namespace

int64_t parse_cache_size(absl::string_view text) {
  int64_t scale = 1;
  if (absl::EndsWith(text, "K")) scale = 1024;
  if (absl::EndsWith(text, "M")) scale = 1024 * 1024;
  if (scale > 1) text.remove_suffix(1);
  int64_t value = 0;
  return absl::SimpleAtoi(text, &value) && value > 0 ? value * scale : 0;
}

std::vector<Cache> caches() {
  std::vector<Cache> all;
  for (int i = 0; i < 16; ++i) {
    const std::string folder =
        absl::StrCat("/sys/devices/system/cpu/cpu0/cache/index", i, "/");
    Cache cache;
    if (!absl::SimpleAtoi(first_line(folder + "level"), &cache.level)) break;
    cache.type = first_line(folder + "type");
    cache.bytes = parse_cache_size(first_line(folder + "size"));
    if (cache.bytes > 0) all.push_back(std::move(cache));
  }
  return all;
}

Machine this_machine() {
  Machine machine;
  machine.cpu = cpu_model();
  machine.cores = usable_cores();
  machine.caches = caches();
  machine.memory_bytes =
      int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE);
  utsname name{};
  if (uname(&name) == 0) {
    machine.kernel = absl::StrCat(name.sysname, " ", name.release);
  }
  machine.date =
      absl::FormatTime("%Y-%m-%d %H:%M UTC", absl::Now(), absl::UTCTimeZone());
  double load = 0;
  if (getloadavg(&load, 1) == 1) machine.load = load;
  machine.version = build::kVersion;
  machine.commit = build::kCommit;
  machine.flags = build::kFlags;
  machine.build_type = build::kType;
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

std::string describe(const Machine& machine) {
  return absl::StrCat(machine.cpu, ", ", machine.cores, " core",
                      machine.cores == 1 ? "" : "s", ", ", machine.kernel,
                      ", distwrap ", machine.version, " (", machine.compiler,
                      ", ", machine.build_type, ")");
}

NoiseMeter::NoiseMeter() : switches_(involuntary_switches()) {
  const Ticks ticks = cpu_ticks();
  steal_ = ticks.steal;
  total_ = ticks.total;
}

Noise NoiseMeter::read() const {
  const Ticks ticks = cpu_ticks();
  Noise noise;
  if (ticks.total > total_) {
    noise.steal_percent = 100 * (ticks.steal - steal_) / (ticks.total - total_);
  }
  noise.involuntary_switches = involuntary_switches() - switches_;
  return noise;
}

}  // namespace distwrap::bench
