// Libraries of operators: their blocks, loading and unloading.
#include "dispatch/library.h"

#include "dispatch/fail.h"
#include "dispatch/library_note.h"
#include "dispatch/quiescence.h"
#include "dispatch/registry.h"
#include "sdk/loaded_file.h"

#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>

#include <algorithm>
#include <dlfcn.h>
#include <list>
#include <thread>

namespace distwrap::dispatch {
namespace {

struct Libraries {
  std::recursive_mutex mutex;
  std::list<LoadedLibrary> all;
  absl::Status first_error;
  // The path that load_library() loads now.
  std::string loading;
};

Libraries& loaded() {
  static auto* const libraries = new Libraries;
  return *libraries;
}

std::string path_of(const void* address) {
  const std::string file = dw_sdk::file_of(address);
  return file.empty() ? "this program" : file;
}

LoadedLibrary& library_of(const void* address) {
  Libraries& libraries = loaded();
  const std::string path = path_of(address);
  for (LoadedLibrary& one : libraries.all) {
    if (one.info.path == path) return one;
  }
  libraries.all.emplace_back().info.path = path;
  return libraries.all.back();
}

// Why a block is not run; OK if it may be.
absl::Status judge(const BlockInfo& info, const std::string& path) {
  return judge_note({info.size < sizeof(BlockInfo) ? 0 : info.version,
                     info.sanitizer, info.cxx_abi, 0},
                    path);
}

std::string resolve(absl::string_view path) {
  if (absl::StrContains(path, '/')) return std::string(path);
  // Beside the core: lib/distwrap/ops.
  const std::string core = path_of(reinterpret_cast<const void*>(&resolve));
  const size_t slash = core.rfind('/');
  return absl::StrCat(core.substr(0, slash == std::string::npos ? 0 : slash),
                      "/distwrap/ops/libdistwrap_ops_", path, ".so");
}

absl::Status busy(const std::string& path, std::string what) {
  return make_error({.reason = Reason::kLibraryBusy,
                     .what = std::move(what),
                     .op = "unload_library",
                     .actual = path});
}

// A few of the registrations that the library had, for errors.
std::string registered_text(const LoadedLibrary& library) {
  constexpr size_t kMost = 8;
  std::vector<std::string> lines = library.ended;
  const size_t more = lines.size() > kMost ? lines.size() - kMost : 0;
  lines.resize(lines.size() - more);
  return absl::StrCat(absl::StrJoin(lines, ", "),
                      more > 0 ? absl::StrCat(" and ", more, " more") : "");
}

// Waits until no call and no object needs the code of the library, whose
// registrations have ended.
absl::Status wait_until_unused(const LoadedLibrary& library,
                               Deadline deadline) {
  const std::string& path = library.info.path;
  if (thread_keys.depth != 0) {
    return busy(absl::StrCat(path, ": ", registered_text(library)),
                "an operator cannot unload the library that it may be in");
  }
  int callers = 0;
  if (!wait_for_calls(deadline, &callers)) {
    return busy(absl::StrCat(path, ": ", registered_text(library)),
                callers < 0 ? std::string("the kernel has no membarrier(2), so "
                                          "the code stays mapped")
                            : absl::StrCat(callers,
                                           " threads are in calls that began "
                                           "before, which may be in the "
                                           "library"));
  }
  while (library.objects.load(std::memory_order_acquire) > 0) {
    if (deadline.passed()) {
      return busy(absl::StrCat(path, ": ", registered_text(library)),
                  absl::StrCat(library.objects.load(),
                               " gradients, storages and modes need the "
                               "library"));
    }
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  return absl::OkStatus();
}

LoadedLibrary* find_loaded(absl::string_view path) {
  for (LoadedLibrary& one : loaded().all) {
    if (one.info.path == path) return &one;
  }
  return nullptr;
}

}  // namespace

std::atomic<int64_t>* objects_of(void (*function)()) {
  Libraries& libraries = loaded();
  const std::lock_guard lock(libraries.mutex);
  LoadedLibrary& library = library_of(reinterpret_cast<const void*>(function));
  const bool may_leave =
      library.handle != nullptr || library.info.path == libraries.loading;
  return may_leave ? &library.objects : nullptr;
}

OperatorBlock::OperatorBlock(const BlockInfo& info) {
  Libraries& libraries = loaded();
  const std::lock_guard lock(libraries.mutex);
  LoadedLibrary& library = library_of(reinterpret_cast<const void*>(info.run));
  library_ = &library;
  ++library.blocks;
  absl::Status status = judge(info, library.info.path);
  if (status.ok()) {
    Registrar registrar;
    Registry::get().begin_block(library.info.path);
    try {
      info.run(registrar);
    } catch (...) {
      registrar.status.Update(status_of_exception());
    }
    status = registrar.status;
    if (!status.ok()) {
      while (!registrar.kept.empty()) registrar.kept.pop_back();
    }
    Registry::get().end_block();
    for (Registration& one : registrar.kept) {
      library.info.registered.push_back(one.text());
      library.kept.push_back(std::move(one));
    }
  }
  library.status.Update(status);
  libraries.first_error.Update(status);
}

OperatorBlock::~OperatorBlock() {
  // At the end of the process nothing has to be undone; a library that leaves
  // earlier leaves by unload_library, or by a dlclose of the program's own.
  Libraries& libraries = loaded();
  const std::lock_guard lock(libraries.mutex);
  auto* const library = static_cast<LoadedLibrary*>(library_);
  if (--library->blocks > 0) return;
  library->end_registrations();
  if (!library->unloading) {
    libraries.all.remove_if(
        [&](const LoadedLibrary& one) { return &one == library; });
  }
}

void LoadedLibrary::end_registrations() {
  if (!info.registered.empty()) ended.swap(info.registered);
  info.registered.clear();
  Registry::get().begin_block(info.path);
  while (!kept.empty()) kept.pop_back();
  Registry::get().end_block();
}

absl::Status load_library(absl::string_view name) {
  Libraries& libraries = loaded();
  const std::lock_guard lock(libraries.mutex);
  const std::string path = resolve(name);
  if (const LoadedLibrary* there = find_loaded(path);
      there != nullptr && there->blocks > 0 && there->status.ok()) {
    if (there->unloading) return busy(path, "another thread unloads it");
    if (!there->kept.empty()) return absl::OkStatus();
    // The code is still mapped, so the blocks would not run again.
    return busy(path, "the library is half unloaded; unload it first");
  }
  if (absl::Status fit = judge_file(path); !fit.ok()) return fit;
  const absl::Status before = libraries.first_error;
  libraries.loading = path;
  void* const handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  libraries.loading.clear();
  if (handle == nullptr) {
    const char* const why = dlerror();
    return make_error({.reason = Reason::kPluginNotFound,
                       .what = absl::StrCat("cannot load ", path),
                       .op = "load_library",
                       .cause = why == nullptr ? "" : why,
                       .next_step = "give the path of a library of operators, "
                                    "or the name of one in lib/distwrap/ops"});
  }
  libraries.first_error = before;
  LoadedLibrary* const library = find_loaded(path);
  if (library == nullptr) {
    dlclose(handle);
    return make_error({.reason = Reason::kPluginRefused,
                       .what = absl::StrCat(path, " registers nothing"),
                       .op = "load_library",
                       .next_step = "the library needs a DW_OPERATORS block"});
  }
  library->handle = handle;
  const absl::Status status = library->status;
  if (!status.ok()) dlclose(handle);
  return status;
}

absl::Status unload_library(absl::string_view name, Deadline deadline) {
  Libraries& libraries = loaded();
  const std::string path = resolve(name);
  LoadedLibrary* library = nullptr;
  {
    const std::lock_guard lock(libraries.mutex);
    library = find_loaded(path);
    if (library == nullptr || library->handle == nullptr) {
      return make_error(
          {.reason = Reason::kPluginNotFound,
           .what = absl::StrCat(path, " was not loaded by load_library"),
           .op = "unload_library"});
    }
    if (library->unloading) return busy(path, "another thread unloads it");
    library->unloading = true;
    library->end_registrations();
  }
  // A call that this waits for may need the lock, to count its first object.
  absl::Status status = wait_until_unused(*library, deadline);
  const std::lock_guard lock(libraries.mutex);
  if (!status.ok()) {
    library->unloading = false;
    return status;
  }
  dlclose(library->handle);
  libraries.all.remove_if(
      [&](const LoadedLibrary& one) { return &one == library; });
  return absl::OkStatus();
}

std::vector<LibraryInfo> libraries() {
  Libraries& known = loaded();
  const std::lock_guard lock(known.mutex);
  std::vector<LibraryInfo> all;
  for (const LoadedLibrary& one : known.all) {
    if (one.blocks > 0) all.push_back(one.info);
  }
  return all;
}

absl::Status registry_status() {
  Libraries& known = loaded();
  const std::lock_guard lock(known.mutex);
  return known.first_error;
}

}  // namespace distwrap::dispatch

namespace distwrap::internal {

std::atomic<int64_t>* objects_of_library(void (*function)()) {
  return dispatch::objects_of(function);
}

}  // namespace distwrap::internal
