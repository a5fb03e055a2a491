// Loads a backend from a path. The checks come in an order that runs no code of
// a refused file: path and owners, the file's note, a trial in a child process,
// loading, the table.
//
// Threads: any; the process loads one plugin at a time.
//
//   absl::StatusOr<BackendPtr> gloo =
//       load_plugin("/opt/x/libdistwrap_gloo.so");
#ifndef DISTWRAP_SRC_PLUGIN_LOADER_H_
#define DISTWRAP_SRC_PLUGIN_LOADER_H_

#include "plugin/allow_list.h"
#include "plugin/backend_table.h"
#include "plugin/probe.h"

#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>

namespace distwrap::plugin {

// Errors: kPluginNotFound, kPluginRefused with a refusal of refusals.def.
absl::StatusOr<BackendPtr> load_plugin(absl::string_view path,
                                       const ProbeOptions& options = {},
                                       const AllowList& allowed = {});

// Facts about this host for the query function; valid for the whole process.
const dw_host_info& host_info();

// Asks a query function for its table and copies the table.
absl::StatusOr<BackendPtr> query_backend(dw_plugin_query_fn query,
                                         absl::string_view origin);

}  // namespace distwrap::plugin

#endif  // DISTWRAP_SRC_PLUGIN_LOADER_H_
