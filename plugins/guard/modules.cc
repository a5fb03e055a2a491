#include "guard/modules.h"

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>

namespace distwrap_guard {
namespace {

constexpr size_t kMostSegments = 8192, kMostNames = 64, kMostAddresses = 64,
                 kLongestName = 96;

// Executable segments, ascending. `changes` is odd while a writer is at work. A
// reader that meets a new value also sees that `changes` has moved.
constexpr auto kNew = std::memory_order_release,
               kKnown = std::memory_order_acquire;
struct Segment {
  std::atomic<uintptr_t> begin{0}, end{0};
  std::atomic<bool> is_exempt{false};
};
constinit Segment segments[kMostSegments];
constinit std::atomic<size_t> count{0};
constinit std::atomic<uint64_t> changes{0}, forgotten{0};

// The exempt modules, under the mutex.
pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
constinit char names[kMostNames][kLongestName] = {};
constinit uintptr_t addresses[kMostAddresses] = {};
constinit size_t names_count = 0, addresses_count = 0;

constexpr const char* kExempt[] = {
#define DW_EXEMPT(prefix) prefix,
#include "guard/exempt_modules.def"
};

bool begins(const char* text, const char* prefix) {
  return strncmp(text, prefix, strlen(prefix)) == 0;
}

bool is_exempt_name(const char* path) {
  if (path[0] == '\0') path = program_invocation_name;  // the program itself
  const char* const slash = strrchr(path, '/');
  const char* const file = slash == nullptr ? path : slash + 1;
  for (const char* const prefix : kExempt)
    if (begins(file, prefix)) return true;
  for (size_t i = 0; i < names_count; ++i)
    if (begins(file, names[i])) return true;
  return false;
}

struct Found {
  size_t count = 0;
};

// Adds the executable segments of one module.
int add_module(dl_phdr_info* info, size_t, void* data) {
  Found& found = *static_cast<Found*>(data);
  bool exempt = is_exempt_name(info->dlpi_name);
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)& part = info->dlpi_phdr[i];
    const uintptr_t begin = info->dlpi_addr + part.p_vaddr;
    for (size_t a = 0; part.p_type == PT_LOAD && a < addresses_count; ++a)
      exempt |= addresses[a] >= begin && addresses[a] < begin + part.p_memsz;
  }
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)& part = info->dlpi_phdr[i];
    if (part.p_type != PT_LOAD || (part.p_flags & PF_X) == 0 ||
        found.count == kMostSegments)
      continue;
    const uintptr_t begin = info->dlpi_addr + part.p_vaddr;
    size_t at = found.count++;
    for (; at > 0 &&
           segments[at - 1].begin.load(std::memory_order_relaxed) > begin;
         --at) {
      const Segment& lower = segments[at - 1];
      segments[at].begin.store(lower.begin.load(std::memory_order_relaxed),
                               kNew);
      segments[at].end.store(lower.end.load(std::memory_order_relaxed), kNew);
      segments[at].is_exempt.store(
          lower.is_exempt.load(std::memory_order_relaxed), kNew);
    }
    segments[at].begin.store(begin, kNew);
    segments[at].end.store(begin + part.p_memsz, kNew);
    segments[at].is_exempt.store(exempt, kNew);
  }
  return 0;
}

// The lock must be held.
void read_modules() {
  changes.fetch_add(1, std::memory_order_acq_rel);
  Found found;
  dl_iterate_phdr(&add_module, &found);
  count.store(found.count, kNew);
  changes.fetch_add(1, std::memory_order_release);
}

// A search in the table as it is; false when a writer was in the way.
bool look_up(uintptr_t address, Module* module) {
  const uint64_t before = changes.load(std::memory_order_acquire);
  if ((before & 1) != 0) return false;
  size_t low = 0, high = count.load(kKnown);
  while (low < high) {
    const size_t middle = (low + high) / 2;
    if (segments[middle].begin.load(kKnown) <= address)
      low = middle + 1;
    else
      high = middle;
  }
  *module = {};
  if (low > 0) {
    const Segment& segment = segments[low - 1];
    const uintptr_t end = segment.end.load(kKnown);
    if (address < end)
      *module = {segment.begin.load(kKnown), end,
                 segment.is_exempt.load(kKnown)};
  }
  return changes.load(std::memory_order_relaxed) == before;
}

}  // namespace

Module module_of(uintptr_t address) {
  Module module;
  if (look_up(address, &module) && module.end != 0) return module;
  // dl_iterate_phdr takes the linker's lock, which a thread in dlclose holds;
  // that thread takes no lock of ours while it does.
  pthread_mutex_lock(&mutex);
  if (!look_up(address, &module) || module.end == 0) {
    read_modules();
    look_up(address, &module);
  }
  pthread_mutex_unlock(&mutex);
  return module;
}

uint64_t generation() { return forgotten.load(std::memory_order_acquire); }

void forget_modules() {
  pthread_mutex_lock(&mutex);
  forgotten.fetch_add(1, std::memory_order_acq_rel);
  changes.fetch_add(1, std::memory_order_acq_rel);
  count.store(0, kNew);
  changes.fetch_add(1, std::memory_order_release);
  pthread_mutex_unlock(&mutex);
}

void file_of(uintptr_t address, char* file, size_t size) {
  Dl_info info = {};
  // NOLINTNEXTLINE(performance-no-int-to-ptr): an address of code
  const bool known = dladdr(reinterpret_cast<void*>(address), &info) != 0 &&
                     info.dli_fname != nullptr;
  snprintf(file, size, "%s", known ? info.dli_fname : "");
}

void exempt_module_of(const void* address) {
  const auto at = reinterpret_cast<uintptr_t>(address);
  pthread_mutex_lock(&mutex);
  bool known = addresses_count == kMostAddresses;
  for (size_t i = 0; i < addresses_count; ++i) known |= addresses[i] == at;
  if (!known) addresses[addresses_count++] = at;
  read_modules();
  pthread_mutex_unlock(&mutex);
}

void exempt_name(const char* prefix) {
  pthread_mutex_lock(&mutex);
  if (names_count < kMostNames && prefix[0] != '\0')
    snprintf(names[names_count++], kLongestName, "%s", prefix);
  read_modules();
  pthread_mutex_unlock(&mutex);
}

}  // namespace distwrap_guard
