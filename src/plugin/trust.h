// The owners whose files may be loaded: root and the effective user, in folders
// where no other user can replace a file.
//
// Threads: functions without state.
#ifndef DISTWRAP_SRC_PLUGIN_TRUST_H_
#define DISTWRAP_SRC_PLUGIN_TRUST_H_

#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>

#include <string>

namespace distwrap::plugin {

// The real path of a plugin's file, when the file and every folder above it
// belong to root or the effective user and are not writable by others. A folder
// with the sticky bit may be writable. A group may have write permission when
// it is root's or the effective group.
// Errors: kPluginNotFound; kPluginRefused (relative path, unreadable, not a
// file, foreign owner, writable by others) with the offending path.
absl::StatusOr<std::string> trusted_path(absl::string_view path);

}  // namespace distwrap::plugin

#endif  // DISTWRAP_SRC_PLUGIN_TRUST_H_
