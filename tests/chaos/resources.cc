#include "chaos/resources.h"

#include "chaos/case.h"
#include "distwrap/abi/note.h"

#include <absl/strings/str_cat.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <unistd.h>

namespace distwrap::chaos {
namespace {

// Memory that heaps keep, and pages of libraries that are touched for the first
// time.
constexpr int64_t kKeptBytes =
    DW_SANITIZER == DW_SANITIZER_NONE ? 16 << 20 : 1 << 30;

int entries(const char* folder) {
  return static_cast<int>(
      std::distance(std::filesystem::directory_iterator(folder), {}));
}

}  // namespace

Resources Resources::now() {
  Resources now;
  now.descriptors = entries("/proc/self/fd");
  now.threads = entries("/proc/self/task");
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);)
    now.shared_mappings += line.find("memfd:") != std::string::npos ? 1 : 0;
  std::ifstream statm("/proc/self/statm");
  int64_t all = 0, resident = 0;
  statm >> all >> resident;
  now.resident_bytes = resident * sysconf(_SC_PAGESIZE);
  return now;
}

std::string Resources::more_than(const Resources& before) const {
  std::string more;
  const auto compare = [&](const char* what, int64_t then, int64_t is,
                           int64_t allowed) {
    if (is > then + allowed)
      absl::StrAppend(&more, more.empty() ? "" : ", ", what, " ", then, " -> ",
                      is);
  };
  compare("descriptors", before.descriptors, descriptors, 0);
  compare("threads", before.threads, threads, 0);
  compare("shared memory", before.shared_mappings, shared_mappings, 0);
  compare("resident bytes", before.resident_bytes, resident_bytes, kKeptBytes);
  return more;
}

std::string leaked_since(const Resources& before) {
  const Deadline patience = Deadline::after(absl::Seconds(3));
  for (;;) {
    std::string more = Resources::now().more_than(before);
    if (more.empty() || patience.passed()) return more;
    sleep_for(absl::Milliseconds(5));
  }
}

}  // namespace distwrap::chaos
