// A trial of a plugin in a child process, so that a plugin that crashes or
// hangs while it is loaded does no harm to this process.
//
// Threads: any.
#ifndef DISTWRAP_SRC_PLUGIN_PROBE_H_
#define DISTWRAP_SRC_PLUGIN_PROBE_H_

#include "plugin/module_paths.h"

#include <absl/status/status.h>
#include <absl/time/time.h>

#include <string>

namespace distwrap::plugin {

struct ProbeOptions {
  // The helper program (probe_main.cc). Without one there is no trial; that is
  // logged and is no error.
  std::string helper = probe_path();
  absl::Duration limit = absl::Seconds(10);
};

// Loads the file at a real path in a child and asks for its table. Errors:
// kPluginRefused (crashes, hangs, not loadable), with the child's output as the
// cause.
absl::Status probe(const std::string& path, const ProbeOptions& options);

}  // namespace distwrap::plugin

#endif  // DISTWRAP_SRC_PLUGIN_PROBE_H_
