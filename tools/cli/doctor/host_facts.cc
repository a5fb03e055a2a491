#include "doctor/host_facts.h"

#include "base/error.h"
#include "distwrap/store.h"
#include "doctor/guard_facts.h"
#include "doctor/network_facts.h"
#include "plugin/module_paths.h"
#include "sdk/headroom.h"
#include "store/run_directory.h"
#include "store/server_thread.h"

#include <absl/strings/ascii.h>
#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_split.h>

#include <errno.h>
#include <fstream>
#include <iterator>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

namespace distwrap::cli {
namespace {

constexpr absl::Duration kStorePatience = absl::Seconds(2);

MeetingFacts meeting_facts(const base::Environment& environment) {
  MeetingFacts facts;
  const auto directory = store::RunDirectory::make(environment);
  if (!directory.ok()) {
    facts.directory_error = std::string(directory.status().message());
    return facts;
  }
  facts.directory = directory->path().substr(0, directory->path().rfind('/'));
  const auto round_trip = [&]() -> absl::Status {
    const Deadline deadline = Deadline::after(kStorePatience);
    const auto server =
        store::ServerThread::start(directory->path() + "/store");
    if (!server.ok()) return server.status();
    const auto client = Store::connect((*server)->address(), deadline);
    if (!client.ok()) return client.status();
    if (absl::Status set = (*client)->set("doctor", "well", deadline);
        !set.ok())
      return set;
    const auto value = (*client)->get("doctor", deadline);
    if (!value.ok()) return value.status();
    return *value == "well"
               ? absl::OkStatus()
               : absl::DataLossError("the store gave another value");
  };
  if (const absl::Status status = round_trip(); !status.ok())
    facts.store_error = std::string(status.message());
  return facts;
}

LimitFacts limit(__rlimit_resource_t resource) {
  rlimit found = {};
  LimitFacts facts;
  if (getrlimit(resource, &found) != 0) return facts;
  // RLIM_INFINITY is also the largest number.
  facts.soft = found.rlim_cur;
  facts.hard = found.rlim_max;
  return facts;
}

std::string file_text(const std::string& path) {
  std::ifstream in(path);
  std::string text{std::istreambuf_iterator<char>(in), {}};
  absl::StripAsciiWhitespace(&text);
  return text;
}

MemoryFacts memory_facts() {
  MemoryFacts facts;
  struct statvfs shm = {};
  if (statvfs("/dev/shm", &shm) != 0) {
    facts.shm_error = base::errno_text(errno);
  } else {
    facts.shm_bytes = uint64_t{shm.f_blocks} * shm.f_frsize;
    facts.shm_free = uint64_t{shm.f_bavail} * shm.f_frsize;
  }
  const int fd = memfd_create("distwrap-doctor", MFD_CLOEXEC);
  if (fd < 0 || ftruncate(fd, 4096) != 0)
    facts.memfd_error = base::errno_text(errno);
  if (fd >= 0) close(fd);
  if (const dw_headroom room = dw_read_headroom(); room.limited != 0) {
    facts.limit = room.limit;
    facts.used = room.limit - room.left;
  }
  return facts;
}

ClockFacts clock_facts() {
  ClockFacts facts;
  facts.source = file_text(
      "/sys/devices/system/clocksource/clocksource0/current_clocksource");
  timespec spec = {};
  if (clock_getres(CLOCK_MONOTONIC, &spec) == 0)
    facts.resolution_ns = spec.tv_sec * 1000000000 + spec.tv_nsec;
  facts.unix_seconds = time(nullptr);
  return facts;
}

std::vector<std::string> missing_folders(const base::Environment& environment) {
  std::vector<std::string> missing;
  const std::string path =
      environment.get_or_default(base::Setting::kPluginPath);
  const std::vector<std::string> folders =
      absl::StrSplit(path, ':', absl::SkipEmpty());
  for (const std::string& folder : folders) {
    struct stat info = {};
    if (absl::StartsWith(folder, "/") &&
        (stat(folder.c_str(), &info) != 0 || !S_ISDIR(info.st_mode)))
      missing.push_back(folder);
  }
  return missing;
}

}  // namespace

HostFacts gather(const base::Environment& environment) {
  HostFacts facts;
  facts.meeting = meeting_facts(environment);
  facts.descriptors = limit(RLIMIT_NOFILE);
  facts.processes = limit(RLIMIT_NPROC);
  facts.locked_memory = limit(RLIMIT_MEMLOCK);
  facts.memory = memory_facts();
  facts.network = network_facts();
  facts.clock = clock_facts();
  const auto registry = registry_of(environment);
  if (registry.ok())
    facts.backends = backend_facts(**registry);
  else
    facts.registry_error = std::string(registry.status().message());
  facts.missing_folders = missing_folders(environment);
  facts.settings = setting_facts(environment);
  const absl::StatusOr<std::optional<bool>> clear_data =
      environment.get_flag(base::setting_name(base::Setting::kClearData));
  facts.allows_clear_data = !clear_data.ok() || clear_data->value_or(true);
  facts.unknown = environment.unknown_settings();
  facts.launch = launch_facts(environment);
  facts.guard = guard_facts();
  return facts;
}

}  // namespace distwrap::cli
