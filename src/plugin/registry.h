// The backends that a session can use, by name or by path.
//
// A name means the linked-in backend of that name, or else
// libdistwrap_<name>.so in one of the folders. A text with a '/' is the path of
// a plugin.
// Threads: any. Ownership: backends are shared and outlive the registry.
//
//   Registry registry(plugin_folders(environment));
//   absl::StatusOr<BackendPtr> backend = registry.find("gloo");
#ifndef DISTWRAP_SRC_PLUGIN_REGISTRY_H_
#define DISTWRAP_SRC_PLUGIN_REGISTRY_H_

#include "base/mutex.h"
#include "plugin/backend_table.h"
#include "plugin/linked_in.h"
#include "plugin/loader.h"
#include "plugin/module_paths.h"

#include <map>
#include <string>
#include <vector>

namespace distwrap::plugin {

class Registry {
 public:
  // `folders` are absolute, in search order.
  explicit Registry(std::vector<std::string> folders,
                    absl::Span<const LinkedIn> linked = linked_in(),
                    ProbeOptions probe = {}, AllowList allowed = {});

  // Loads the backend unless it is loaded. A failure is not remembered: the
  // next call tries again. Errors: kBackendMissing (empty name),
  // kBackendUnknown (with the known names and the searched places), and the
  // loader's. A name that is in two folders is refused.
  absl::StatusOr<BackendPtr> find(absl::string_view name_or_path);

  struct Entry {
    std::string name, origin;
    bool loaded = false;
  };
  // All known backends, sorted by name and origin.
  std::vector<Entry> list() const;
  // The searched places as text: "the linked-in backends, /usr/lib/plugins".
  std::string places() const;

 private:
  absl::StatusOr<BackendPtr> find_name(absl::string_view name)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<BackendPtr> find_path(absl::string_view path)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<std::string> find_file(absl::string_view name) const;
  absl::Status unknown(absl::string_view name) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::vector<Entry> list_locked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::vector<std::string> folders_;
  const absl::Span<const LinkedIn> linked_;
  const ProbeOptions probe_;
  const AllowList allowed_;
  mutable base::Mutex mutex_;
  std::map<std::string, BackendPtr> by_name_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, BackendPtr> by_path_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace distwrap::plugin

#endif  // DISTWRAP_SRC_PLUGIN_REGISTRY_H_
