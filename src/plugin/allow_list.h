// The list of the SHA-256 hashes of all files that may be loaded, for
// installations that keep one.
//
// Threads: a value.
//
//   sha256sum libdistwrap_x.so >> allowed
//   DISTWRAP_PLUGIN_ALLOW=/etc/distwrap/allowed
#ifndef DISTWRAP_SRC_PLUGIN_ALLOW_LIST_H_
#define DISTWRAP_SRC_PLUGIN_ALLOW_LIST_H_

#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>

#include <set>
#include <string>

namespace distwrap::plugin {

class AllowList {
 public:
  // No list: every file is allowed.
  AllowList() = default;
  // Parses lines in the format of sha256sum(1): 64 hexadecimal digits, then any
  // text. Empty lines and lines that begin with '#' are ignored. An empty list
  // allows no file.
  static absl::StatusOr<AllowList> parse(absl::string_view text);
  // Reads a list from a file with an absolute path. Errors: kInvalidArgument
  // with the line's number.
  static absl::StatusOr<AllowList> read(const std::string& path);

  bool allows(const std::string& sha256) const {
    return !restricts_ || hashes_.count(sha256) != 0;
  }

 private:
  bool restricts_ = false;
  std::set<std::string> hashes_;
};

// The hash as 64 lower-case hexadecimal digits. Errors: kPluginRefused.
absl::StatusOr<std::string> sha256_of_file(const std::string& path);

}  // namespace distwrap::plugin

#endif  // DISTWRAP_SRC_PLUGIN_ALLOW_LIST_H_
