// From a path to a backend, in the order that lets nothing run of what is
// refused: path and owners, the file's note, a trial in a child, loading, the
// table.
//
// Threads: any; one plugin of the process is loaded at a time.
//
//   absl::StatusOr<BackendPtr> gloo =
//   load_plugin("/opt/x/libdistwrap_gloo.so");
#ifndef DISTWRAP_SRC_PLUGIN_LOADER_H_
#define DISTWRAP_SRC_PLUGIN_LOADER_H_

#include "plugin/allow_list.h"
#include "plugin/backend_table.h"
#include "plugin/probe.h"

#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>

namespace distwrap::plugin {

// Errors: kPluginNotFound, kPluginRefused; see refusals.def.
absl::StatusOr<BackendPtr> load_plugin(absl::string_view path,
                                       const ProbeOptions& options = {},
                                       const AllowList& allowed = {});

// What a query function is told about this host. Valid for ever.
const dw_host_info& host_info();

// Asks for a table and copies it.
absl::StatusOr<BackendPtr> query_backend(dw_plugin_query_fn query,
                                         absl::string_view origin);

}  // namespace distwrap::plugin

#endif  // DISTWRAP_SRC_PLUGIN_LOADER_H_
