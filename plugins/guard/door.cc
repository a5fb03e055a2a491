// Decides whether a call of another communication library passes.
#include "guard/door.h"

#include "guard/modules.h"
#include "sdk/guard_door.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cxxabi.h>
#include <dlfcn.h>
#include <new>
#include <pthread.h>
#include <stdexcept>
#include <unistd.h>

#define DW_GUARD_EXPORT __attribute__((visibility("default")))

constinit std::atomic<int32_t> distwrap_guard_mode{DW_DOOR_OPEN};
constinit thread_local int32_t distwrap_guard_scopes = 0;
#define DW_GUARDED(symbol, library, instead)               \
  constinit distwrap_guard::Row distwrap_guarded_##symbol{ \
      #symbol, distwrap_guard::Library::library, #instead};
#include "guard/guarded_calls.def"

namespace distwrap_guard {
namespace {

Row* const kRows[] = {
#define DW_GUARDED(symbol, library, instead) &distwrap_guarded_##symbol,
#include "guard/guarded_calls.def"
};
constexpr size_t kRowCount = sizeof(kRows) / sizeof(kRows[0]);

// Answers whether the thread is inside distwrap; null without a session.
constinit std::atomic<int32_t (*)()> is_inside_distwrap{nullptr};
constinit std::atomic<uint64_t> refusals{0};

// Callers that were found to be exempt, by the address to which a call returns.
constexpr size_t kCallers = 1024;
constinit std::atomic<uintptr_t> exempt_callers[kCallers] = {};

std::atomic<uintptr_t>& place_of(uintptr_t caller) {
  return exempt_callers[(caller >> 2) * 0x9e3779b97f4a7c15u >> 54];
}

const char* name_of(Library library) {
  constexpr const char* kNames[] = {"NCCL", "MPI", "UCX", "Gloo"};
  return kNames[static_cast<size_t>(library)];
}

using Dlclose = int (*)(void*);
Dlclose real_dlclose() {
  static const auto found =
      reinterpret_cast<Dlclose>(dlsym(RTLD_NEXT, "dlclose"));
  return found;
}

// ---- the library's own function ----

// A second door that was preloaded does nothing: this asks what lies behind it.
using NextOf = void* (*)(const char*);
NextOf door_behind() {
  static const auto found =
      reinterpret_cast<NextOf>(dlsym(RTLD_NEXT, "distwrap_guard_next"));
  return found;
}

void* next_of(const char* name) {
  const NextOf behind = door_behind();
  return behind != nullptr ? behind(name) : dlsym(RTLD_NEXT, name);
}

void* find_near(const Row& row, const Module& module, uintptr_t caller) {
  char file[4096];
  file_of(caller, file, sizeof file);
  if (file[0] == '\0' || module.end == 0) return nullptr;
  // The library is visible to its loader alone: to the caller's module and to
  // what that needs.
  void* const loaded = dlopen(file, RTLD_LAZY | RTLD_NOLOAD);
  if (loaded == nullptr) return nullptr;
  void* const function = dlsym(loaded, row.name);
  real_dlclose()(loaded);
  return function;
}

// find_near, with the result kept for further calls from the module.
void* function_near(Row& row, const Module& module, uintptr_t caller) {
  const uint64_t now = generation();
  void* const function = find_near(row, module, caller);
  if (function == nullptr || module.end == 0) return function;
  auto* const one = new (std::nothrow)
      LocalFunction{module.begin, module.end, now, function, nullptr};
  if (one == nullptr) return function;
  one->next = row.locals.load(std::memory_order_relaxed);
  while (!row.locals.compare_exchange_weak(one->next, one,
                                           std::memory_order_acq_rel)) {
  }
  return function;
}

// Null when the function exists nowhere.
void* function_for(Row& row, uintptr_t caller) {
  if (void* const known = row.function.load(std::memory_order_acquire))
    return known;
  LocalFunction* const locals = row.locals.load(std::memory_order_acquire);
  const Module module = locals == nullptr ? Module() : module_of(caller);
  const uint64_t now = generation();
  for (LocalFunction* one = locals; one != nullptr; one = one->next)
    if (one->begin == module.begin && one->generation == now)
      return one->function;
  if (void* const next = next_of(row.name)) {
    row.function.store(next, std::memory_order_release);
    return next;
  }
  return function_near(row, module_of(caller), caller);
}

// ---- a refused call ----

// The text of this thread's last refusal, for functions that throw it.
thread_local char refusal[512];

long refuse_nccl() { return 5; }  // ncclInvalidUsage
// MPI_ERR_OTHER, which Open MPI and MPICH number differently.
long refuse_open_mpi() { return 16; }
long refuse_mpich() { return 15; }
// UCS_ERR_UNSUPPORTED, also as the pointer that functions with requests give.
long refuse_ucx() { return -22; }
[[noreturn]] void refuse_gloo() { throw std::runtime_error(refusal); }

// Whether the library of a function is Open MPI. Without the function any MPI
// of the process decides.
bool is_open_mpi(void* function) {
  constexpr const char* kOwn = "ompi_mpi_comm_world";
  char file[4096] = "";
  if (function != nullptr)
    file_of(reinterpret_cast<uintptr_t>(function), file, sizeof file);
  void* const loaded =
      file[0] == '\0' ? nullptr : dlopen(file, RTLD_LAZY | RTLD_NOLOAD);
  if (loaded == nullptr) return dlsym(RTLD_DEFAULT, kOwn) != nullptr;
  const bool is = dlsym(loaded, kOwn) != nullptr;
  real_dlclose()(loaded);
  return is;
}

void* refusal_of(Library library, void* function) {
  switch (library) {
    case Library::NCCL:
      return reinterpret_cast<void*>(&refuse_nccl);
    case Library::MPI:
      return is_open_mpi(function) ? reinterpret_cast<void*>(&refuse_open_mpi)
                                   : reinterpret_cast<void*>(&refuse_mpich);
    case Library::UCX:
      return reinterpret_cast<void*>(&refuse_ucx);
    case Library::GLOO:
      break;
  }
  return reinterpret_cast<void*>(&refuse_gloo);
}

// A number for the file of a module, which stays when it is loaded again.
uint64_t number_of(const char* file) {
  uint64_t number = 0xcbf29ce484222325u;  // FNV-1a
  for (; *file != '\0'; ++file)
    number = (number ^ static_cast<unsigned char>(*file)) * 0x100000001b3u;
  return number;
}

// Whether a function and a module come together for the first time.
bool is_first(Row& row, uint64_t module) {
  ToldModule* one = nullptr;
  for (ToldModule* known = row.told.load(std::memory_order_acquire);;) {
    for (ToldModule* at = known; at != nullptr; at = at->next)
      if (at->module == module) {
        delete one;
        return false;
      }
    if (one == nullptr) one = new (std::nothrow) ToldModule{module, nullptr};
    if (one == nullptr) return true;
    one->next = known;
    if (row.told.compare_exchange_weak(known, one, std::memory_order_acq_rel))
      return true;
  }
}

// "gloo::barrier" for a name of C++.
void plain_name(const char* symbol, char* name, size_t size) {
  int status = 0;
  char* const made = abi::__cxa_demangle(symbol, nullptr, nullptr, &status);
  snprintf(name, size, "%s", status == 0 ? made : symbol);
  free(made);
  if (char* const arguments = strchr(name, '(')) *arguments = '\0';
}

void tell(Row& row, uintptr_t caller, const char* what) {
  char file[256];
  char name[128];
  plain_name(row.name, name, sizeof name);
  file_of(caller, file, sizeof file);
  snprintf(refusal, sizeof refusal,
           "distwrap: kDirectCall: %s was called by %s %s; call %s instead, or "
           "open a scope by distwrap_guard_enter [DW-0107]",
           name, file[0] == '\0' ? "code of no module" : file, what,
           row.instead);
  if (!is_first(row, number_of(file))) return;
  char line[sizeof refusal + 1];
  const int length = snprintf(line, sizeof line, "%s\n", refusal);
  [[maybe_unused]] const ssize_t written =
      write(STDERR_FILENO, line, static_cast<size_t>(length));
}

// Whether the caller may call a function while the door is closed.
bool may_pass(Row& row, uintptr_t caller, void* function) {
  if (distwrap_guard_scopes > 0) return true;
  if (place_of(caller).load(std::memory_order_relaxed) == caller) {
    row.exempt_caller.store(caller, std::memory_order_relaxed);
    return true;
  }
  const Module module = module_of(caller);
  // The library itself calls its own functions.
  const auto own = reinterpret_cast<uintptr_t>(function);
  const bool exempt =
      module.is_exempt || (own >= module.begin && own < module.end);
  if (exempt) {
    place_of(caller).store(caller, std::memory_order_relaxed);
    return true;
  }
  const auto is_inside = is_inside_distwrap.load(std::memory_order_acquire);
  return is_inside != nullptr && is_inside() != 0;
}

void forget() {
  for (Row* const row : kRows) {
    row->function.store(nullptr, std::memory_order_release);
    row->exempt_caller.store(0, std::memory_order_relaxed);
  }
  for (std::atomic<uintptr_t>& caller : exempt_callers)
    caller.store(0, std::memory_order_relaxed);
  forget_modules();
}

// ---- what libdistwrap.so uses ----

void set(int32_t mode) {
  distwrap_guard_mode.store(mode, std::memory_order_release);
}

void scope(int32_t change) { distwrap_guard_scopes += change; }

void set_inside(int32_t (*is_inside)()) {
  is_inside_distwrap.store(is_inside, std::memory_order_release);
}

uint64_t all_refusals() { return refusals.load(std::memory_order_relaxed); }

void exempt_address(const void* address) { exempt_module_of(address); }

void read_row(uint32_t index, dw_guarded_call* call) {
  const Row& row = *kRows[index < kRowCount ? index : 0];
  *call = {row.name, name_of(row.library), row.instead,
           row.refused.load(std::memory_order_relaxed)};
}

// The sessions of a process are not those of its forked child.
void open_in_child() {
  distwrap_guard_mode.store(DW_DOOR_OPEN, std::memory_order_relaxed);
}

__attribute__((constructor)) void begin() {
  real_dlclose();
  door_behind();
  pthread_atfork(nullptr, nullptr, &open_in_child);
}

}  // namespace
}  // namespace distwrap_guard

using namespace distwrap_guard;  // NOLINT(google-build-using-namespace)

void* distwrap_guard_target(Row* row, const void* return_address) {
  const int saved_errno = errno;
  const auto caller = reinterpret_cast<uintptr_t>(return_address);
  void* function = function_for(*row, caller);
  const int32_t mode = distwrap_guard_mode.load(std::memory_order_acquire);
  if (function == nullptr) {
    tell(*row, caller, "and exists in no loaded library");
    function = refusal_of(row->library, nullptr);
  } else if (mode != DW_DOOR_OPEN && !may_pass(*row, caller, function)) {
    row->refused.fetch_add(1, std::memory_order_relaxed);
    refusals.fetch_add(1, std::memory_order_relaxed);
    tell(*row, caller, "while a session guards the process");
    if (mode == DW_DOOR_BLOCK) function = refusal_of(row->library, function);
  }
  errno = saved_errno;
  return function;
}

extern "C" {

// A module that goes may be loaded again elsewhere.
DW_GUARD_EXPORT int dlclose(void* handle) {
  const int result = real_dlclose()(handle);
  forget();
  return result;
}

// The function behind this door in the order of search, for a door before it.
DW_GUARD_EXPORT void* distwrap_guard_next(const char* name) {
  return next_of(name);
}

DW_GUARD_EXPORT const dw_guard_door* distwrap_guard_door() {
  static constexpr dw_guard_door kDoor = {DW_GUARD_DOOR_VERSION,
                                          static_cast<uint32_t>(kRowCount),
                                          DISTWRAP_VERSION,
                                          &set,
                                          &scope,
                                          &exempt_address,
                                          &exempt_name,
                                          &set_inside,
                                          &all_refusals,
                                          &read_row};
  return &kDoor;
}
}
