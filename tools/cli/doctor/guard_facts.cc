#include "doctor/guard_facts.h"

#include "live/jobs.h"
#include "plugin/module_paths.h"

#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>

#include <elf.h>
#include <filesystem>
#include <fstream>
#include <link.h>
#include <string.h>
#include <sys/auxv.h>
#include <system_error>
#include <vector>

namespace distwrap::cli {
namespace {

namespace fs = std::filesystem;

std::string file_of(int64_t pid, const char* name) {
  return absl::StrCat("/proc/", pid, "/", name);
}

bool has_mapped_door(int64_t pid) {
  std::ifstream maps(file_of(pid, "maps"));
  for (std::string line; std::getline(maps, line);)
    if (absl::StrContains(line, "/libdistwrap_guard.so")) return true;
  return false;
}

// Whether the kernel told the loader to trust no variable (ld.so(8)).
bool is_privileged(int64_t pid) {
  std::ifstream auxv(file_of(pid, "auxv"), std::ios::binary);
  ElfW(auxv_t) entry = {};
  while (auxv.read(reinterpret_cast<char*>(&entry), sizeof entry))
    if (entry.a_type == AT_SECURE) return entry.a_un.a_val != 0;
  return false;
}

// Whether the program names no loader. False for a file that cannot be read.
bool is_static(int64_t pid) {
  std::ifstream program(file_of(pid, "exe"), std::ios::binary);
  ElfW(Ehdr) header = {};
  if (!program.read(reinterpret_cast<char*>(&header), sizeof header) ||
      memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 ||
      header.e_phentsize != sizeof(ElfW(Phdr)))
    return false;
  std::vector<ElfW(Phdr)> parts(header.e_phnum);
  program.seekg(static_cast<std::streamoff>(header.e_phoff));
  if (!program.read(
          reinterpret_cast<char*>(parts.data()),
          static_cast<std::streamsize>(parts.size() * sizeof(ElfW(Phdr)))))
    return false;
  for (const ElfW(Phdr) & part : parts)
    if (part.p_type == PT_INTERP) return false;
  return true;
}

}  // namespace

GuardFacts::Process guarded_process(int64_t pid) {
  std::error_code unread;
  return {.pid = pid,
          .program = fs::read_symlink(file_of(pid, "exe"), unread).filename(),
          .has_door = has_mapped_door(pid),
          .is_privileged = is_privileged(pid),
          .is_static = is_static(pid)};
}

GuardFacts guard_facts() {
  GuardFacts facts;
  facts.path = plugin::guard_path();
  for (const RunningJob& job : running_jobs())
    for (const int64_t pid : job.pids) {
      facts.processes.push_back(guarded_process(pid));
      for (const comm::LiveRank& rank : job.board.ranks)
        if (rank.pid == pid) facts.processes.back().asks |= rank.guard != 0;
    }
  return facts;
}

}  // namespace distwrap::cli
