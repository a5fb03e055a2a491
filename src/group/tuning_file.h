// The measurements of a machine for its backends: a file that `distwrap bench
// tune` writes and DISTWRAP_TUNING names.
//
//   # Measured 2025-11-21 17:40 UTC on ...
//   shm.straight_tried = 16384
//
// A line gives one value to a backend; '#' begins a comment. The values of a
// backend become its hint `tuning`.
//
// Threads: a value.
#ifndef DISTWRAP_SRC_GROUP_TUNING_FILE_H_
#define DISTWRAP_SRC_GROUP_TUNING_FILE_H_

#include "comm/hints.h"
#include "plugin/backend_table.h"

#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>

#include <map>
#include <string>

namespace distwrap::group {

class TuningFile {
 public:
  // No file: no hints.
  TuningFile() = default;
  // `path` is for errors: kInvalidArgument with the path and the line's number.
  static absl::StatusOr<TuningFile> parse(absl::string_view text,
                                          const std::string& path);
  // Reads and parses a file. Errors: also when it cannot be read.
  static absl::StatusOr<TuningFile> read(const std::string& path);

  // Adds the hint if the file has values for this backend, the backend knows
  // the hint, and the hint is not given. Returns whether it was added.
  bool add_hint(const plugin::BackendPtr& backend, comm::Hints* hints) const;
  const std::string& path() const { return path_; }
  // Maps a backend to the text of its hint.
  const std::map<std::string, std::string>& hints() const { return hints_; }

 private:
  std::string path_;
  std::map<std::string, std::string> hints_;
};

}  // namespace distwrap::group

#endif  // DISTWRAP_SRC_GROUP_TUNING_FILE_H_
