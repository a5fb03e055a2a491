// A backend as the host holds it: a copy of the table in which every slot can
// be called.
//
// Threads: immutable after construction.
// Ownership: shared; the code of a plugin stays mapped until the process ends.
//
//   absl::StatusOr<BackendPtr> backend =
//       make_backend(query(&host), "linked in");
//   if (!backend.ok()) return backend.status();
//   (*backend)->api().open(...);
#ifndef DISTWRAP_SRC_PLUGIN_BACKEND_TABLE_H_
#define DISTWRAP_SRC_PLUGIN_BACKEND_TABLE_H_

#include "distwrap/abi/plugin.h"

#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>

#include <memory>
#include <string>

namespace distwrap::plugin {

class BackendTable;
using BackendPtr = std::shared_ptr<const BackendTable>;

class BackendTable {
 public:
  BackendTable(const BackendTable&) = delete;
  BackendTable& operator=(const BackendTable&) = delete;

  // No slot is NULL. A slot that the backend lacks returns DW_UNIMPLEMENTED
  // with an error that says so; `extension` returns NULL, and `progress`
  // returns 0, because such a backend has no events to handle.
  const dw_backend_api& api() const { return api_; }
  // Whether the backend itself provides the slot.
  bool has_progress() const { return has_progress_; }
  bool has_memory() const { return has_memory_; }
  const std::string& name() const { return name_; }
  const std::string& version() const { return version_; }
  // The text "linked in", or the real path of the plugin.
  const std::string& origin() const { return origin_; }

 private:
  friend absl::StatusOr<BackendPtr> make_backend(const dw_backend_api* from,
                                                 absl::string_view origin);
  BackendTable() = default;

  dw_backend_api api_ = {};
  bool has_progress_ = false, has_memory_ = false;
  std::string name_, version_, origin_;
};

// Copies a table. Slots of a newer backend behind the end of this host's table
// stay unused; they are offers, not demands.
// Errors: kPluginRefused (no table, wrong ABI, bad table, missing slot).
absl::StatusOr<BackendPtr> make_backend(const dw_backend_api* from,
                                        absl::string_view origin);

// Whether users can write the name: [a-z][a-z0-9_]*, at most 64 characters.
bool is_backend_name(absl::string_view name);

}  // namespace distwrap::plugin

#endif  // DISTWRAP_SRC_PLUGIN_BACKEND_TABLE_H_
