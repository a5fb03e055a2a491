#include "plugin/loader.h"

#include "base/error.h"
#include "base/guard_door.h"
#include "base/log.h"
#include "base/mutex.h"
#include "base/settings.h"
#include "plugin/elf_note.h"
#include "plugin/refusal.h"
#include "plugin/trust.h"

#include <absl/strings/str_cat.h>

#include <dlfcn.h>
#include <exception>
#include <link.h>
#include <set>
#include <string.h>
#include <sys/stat.h>
#include <tuple>

namespace distwrap::plugin {
namespace {

// The identity of a file that passed its trial; a change of content changes it.
using FileIdentity = std::tuple<uint64_t, uint64_t, int64_t, int64_t, int64_t>;

// Files that passed their trial. The process keeps them, as the dynamic linker
// does.
struct Seen {
  base::Mutex mutex;
  std::set<FileIdentity> files ABSL_GUARDED_BY(mutex);
};

Seen& seen() {
  static Seen* const kSeen = new Seen;  // outlives static destructors
  return *kSeen;
}

absl::StatusOr<FileIdentity> identify(const std::string& path) {
  struct stat info;
  if (stat(path.c_str(), &info) != 0)
    return refuse(Refusal::kUnreadable, path,
                  {.cause = base::errno_text(errno)});
  return FileIdentity(info.st_dev, info.st_ino, info.st_mtim.tv_sec,
                      info.st_mtim.tv_nsec, info.st_size);
}

// The query function of the library itself; a function of that name in one of
// its dependencies does not count.
absl::StatusOr<dw_plugin_query_fn> find_entry(void* library,
                                              const std::string& path) {
  void* const symbol = dlsym(library, DW_PLUGIN_QUERY_SYMBOL);
  if (symbol == nullptr) return refuse(Refusal::kNoEntry, path);
  link_map* own = nullptr;
  link_map* found = nullptr;
  Dl_info info;
  if (dlinfo(library, RTLD_DI_LINKMAP, &own) != 0 ||
      dladdr1(symbol, &info, reinterpret_cast<void**>(&found),
              RTLD_DL_LINKMAP) == 0)
    return refuse(Refusal::kNoEntry, path, {.about = "its place is unknown"});
  if (own != found)
    return refuse(
        Refusal::kNoEntry, path,
        {.about = absl::StrCat("the one found lies in ", info.dli_fname)});
  dw_plugin_query_fn query = nullptr;
  memcpy(&query, &symbol, sizeof query);
  return query;
}

absl::StatusOr<BackendPtr> load(const std::string& path) {
  void* const library =
      dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (library == nullptr) {
    const char* const why = dlerror();
    return refuse(Refusal::kNotLoadable, path,
                  {.cause = why == nullptr ? "" : why});
  }
  const absl::StatusOr<dw_plugin_query_fn> query = find_entry(library, path);
  if (!query.ok()) return query.status();
  // The plugin may be linked with its engine.
  base::let_module_pass(reinterpret_cast<const void*>(*query));
  return query_backend(*query, path);
}

}  // namespace

const dw_host_info& host_info() {
  static const dw_host_info kInfo = {
      .struct_size = sizeof(dw_host_info),
      .abi_major = DW_ABI_MAJOR,
      .abi_minor = DW_ABI_MINOR,
      .sanitizer = DW_SANITIZER,
      .reserved = 0,
      .version = {base::library_version().data(),
                  base::library_version().size()}};
  return kInfo;
}

absl::StatusOr<BackendPtr> query_backend(dw_plugin_query_fn query,
                                         absl::string_view origin) {
  const dw_backend_api* table = nullptr;
  try {
    table = query(&host_info());
  } catch (const std::exception& exception) {
    return refuse(
        Refusal::kNoTable, origin,
        {.about = "it threw an exception", .cause = exception.what()});
  } catch (...) {
    return refuse(Refusal::kNoTable, origin,
                  {.about = "it threw an exception"});
  }
  return make_backend(table, origin);
}

absl::StatusOr<BackendPtr> load_plugin(absl::string_view path,
                                       const ProbeOptions& options,
                                       const AllowList& allowed) {
  const absl::StatusOr<std::string> real = trusted_path(path);
  if (!real.ok()) return real.status();
  const absl::StatusOr<dw_note> note = read_note(*real);
  if (!note.ok()) return note.status();
  const absl::StatusOr<std::string> hash = sha256_of_file(*real);
  if (!hash.ok()) return hash.status();
  if (!allowed.allows(*hash))
    return refuse(Refusal::kNotAllowed, *real,
                  {.about = absl::StrCat("it is ", *hash)});
  base::MutexLock lock(seen().mutex);
  const absl::StatusOr<FileIdentity> identity = identify(*real);
  if (!identity.ok()) return identity.status();
  if (seen().files.count(*identity) == 0) {
    if (absl::Status status = probe(*real, options); !status.ok())
      return status;
    seen().files.insert(*identity);
  }
  absl::StatusOr<BackendPtr> backend = load(*real);
  if (backend.ok())
    base::log(
        base::LogLevel::kInfo,
        absl::StrCat("loaded plugin ", *real, ": ", (*backend)->name(), " ",
                     (*backend)->version(), ", ABI ", note->abi_major, ".",
                     note->abi_minor, ", host ABI ", DW_ABI_MAJOR, ".",
                     DW_ABI_MINOR, ", SHA-256 ", *hash));
  return backend;
}

}  // namespace distwrap::plugin
