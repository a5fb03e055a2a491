// Where the parts of an installation lie, relative to the module that holds
// this code, so that a prefix can be moved.
//
// Threads: any.
#ifndef DISTWRAP_SRC_PLUGIN_MODULE_PATHS_H_
#define DISTWRAP_SRC_PLUGIN_MODULE_PATHS_H_

#include "base/settings.h"

#include <string>
#include <vector>

namespace distwrap::plugin {

// Prefix of the installation: the folder above bin or lib; empty when the
// module's own file cannot be found.
const std::string& install_prefix();

// The installation's plugin folder, then those of DISTWRAP_PLUGIN_PATH. Of
// these, one that is not absolute is left out with a warning.
std::vector<std::string> plugin_folders(const base::Environment& environment);

// The program that loads a plugin on trial; empty without a prefix.
std::string probe_path();

}  // namespace distwrap::plugin

#endif  // DISTWRAP_SRC_PLUGIN_MODULE_PATHS_H_
