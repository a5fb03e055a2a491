#include "store/process_identity.h"

#include "base/read_file.h"

#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_split.h>

#include <errno.h>
#include <signal.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <vector>

namespace distwrap::store {
namespace {

constexpr int64_t kNsPerSecond = 1'000'000'000;

struct Stat {
  bool is_zombie = false;
  pid_t parent = 0;
  int64_t start_ticks = 0;
};

std::optional<Stat> read_stat(pid_t pid) {
  const std::string line =
      base::read_file(absl::StrCat("/proc/", pid, "/stat")).value_or("");
  // The process name in parentheses may contain any character, so parsing
  // starts behind the last ')'.
  const size_t end = line.rfind(')');
  if (end == std::string::npos) return std::nullopt;
  const std::string tail = line.substr(end + 1);
  const std::vector<std::string> fields =
      absl::StrSplit(tail, ' ', absl::SkipEmpty());
  constexpr size_t kState = 0, kParent = 1, kStart = 19;
  Stat stat;
  if (fields.size() <= kStart ||
      !absl::SimpleAtoi(fields[kParent], &stat.parent) ||
      !absl::SimpleAtoi(fields[kStart], &stat.start_ticks))
    return std::nullopt;
  stat.is_zombie = fields[kState] == "Z" || fields[kState] == "X";
  return stat;
}

// The first namespaces of all machines have equal numbers, so the boot of the
// machine is a part of this one.
uint64_t own_name_space() {
  struct stat info = {};
  if (stat("/proc/self/ns/pid", &info) != 0) return 0;
  const std::string boot =
      base::read_file("/proc/sys/kernel/random/boot_id").value_or("");
  absl::string_view id = boot;
  uint64_t hash = info.st_ino;
  for (const char c : base::take_line(&id))
    hash = hash * 0x100000001b3 + static_cast<unsigned char>(c);
  return hash;
}

}  // namespace

std::optional<ProcessIdentity> ProcessIdentity::of(pid_t pid) {
  const std::optional<Stat> found = read_stat(pid);
  if (!found.has_value()) return std::nullopt;
  return ProcessIdentity{pid, found->start_ticks, own_name_space()};
}

ProcessIdentity ProcessIdentity::of_self() {
  return of(getpid()).value_or(ProcessIdentity{getpid(), 0, own_name_space()});
}

std::string ProcessIdentity::encode() const {
  return absl::StrCat(pid, " ", start_ticks, " ", name_space);
}

std::optional<ProcessIdentity> ProcessIdentity::decode(absl::string_view text) {
  const std::vector<absl::string_view> fields = absl::StrSplit(text, ' ');
  ProcessIdentity result;
  if (fields.size() != 3 || !absl::SimpleAtoi(fields[0], &result.pid) ||
      !absl::SimpleAtoi(fields[1], &result.start_ticks) ||
      !absl::SimpleAtoi(fields[2], &result.name_space) || result.pid <= 0)
    return std::nullopt;
  return result;
}

bool ProcessIdentity::may_live() const {
  if (name_space != own_name_space()) return true;
  if (kill(pid, 0) != 0 && errno == ESRCH) return false;
  const std::optional<Stat> stat = read_stat(pid);
  return !stat.has_value() ||
         (!stat->is_zombie && stat->start_ticks == start_ticks);
}

pid_t parent_of(pid_t pid) {
  const std::optional<Stat> stat = read_stat(pid);
  return stat.has_value() ? stat->parent : 0;
}

int64_t boot_clock_ns() {
  timespec now = {};
  clock_gettime(CLOCK_BOOTTIME, &now);
  return now.tv_sec * kNsPerSecond + now.tv_nsec;
}

int64_t own_start_ns() {
  const int64_t ticks = ProcessIdentity::of_self().start_ticks;
  const int64_t per_second = sysconf(_SC_CLK_TCK);
  return per_second > 0 ? ticks * (kNsPerSecond / per_second) : 0;
}

}  // namespace distwrap::store
