// Whose files may become part of this process: root's and our own, in places
// where nobody else can put another file in their stead.
//
// Threads: functions without state.
#ifndef DISTWRAP_SRC_PLUGIN_TRUST_H_
#define DISTWRAP_SRC_PLUGIN_TRUST_H_

#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>

#include <string>

namespace distwrap::plugin {

// The real path of a plugin's file, when the file and every folder above it
// belong to root or the effective user and cannot be written by others. Folders
// with the sticky bit may be written; groups may write when they are root's or
// the effective one.
// Errors: kPluginNotFound; kPluginRefused (relative path, unreadable, not a
// file, foreign owner, writable by others), which names the culprit.
absl::StatusOr<std::string> trusted_path(absl::string_view path);

}  // namespace distwrap::plugin

#endif  // DISTWRAP_SRC_PLUGIN_TRUST_H_
