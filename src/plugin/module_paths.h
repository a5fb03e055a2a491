// The places of an installation's parts, relative to the module that contains
// this code, so that the prefix can be moved.
//
// Threads: any.
#ifndef DISTWRAP_SRC_PLUGIN_MODULE_PATHS_H_
#define DISTWRAP_SRC_PLUGIN_MODULE_PATHS_H_

#include "base/settings.h"

#include <string>
#include <vector>

namespace distwrap::plugin {

// The prefix of the installation: the folder above bin or lib. Empty when the
// module's own file cannot be found.
const std::string& install_prefix();

// The installation's plugin folder, then the folders of DISTWRAP_PLUGIN_PATH. A
// relative folder of that variable is skipped with a warning.
std::vector<std::string> plugin_folders(const base::Environment& environment);

// The library with the door of the guard (distwrap/guard.h), which programs
// preload; empty without a prefix or where this platform has none.
std::string guard_path();

// The helper program that loads a plugin on trial; empty without a prefix.
std::string probe_path();

}  // namespace distwrap::plugin

#endif  // DISTWRAP_SRC_PLUGIN_MODULE_PATHS_H_
