// A private directory for the sockets of one job, gone at its end.
//
// Threads: as a plain object. Ownership: the object removes the directory.
// A lock on the directory tells that its job lives; it goes with the process,
// so what a killed one left is recognised and removed by the next.
//
//   auto directory = RunDirectory::make(Environment::of_process());
//   std::string socket = directory->path() + "/store";
#ifndef DISTWRAP_SRC_STORE_RUN_DIRECTORY_H_
#define DISTWRAP_SRC_STORE_RUN_DIRECTORY_H_

#include "base/settings.h"

#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>

#include <string>

namespace distwrap::store {

class RunDirectory {
 public:
  // Made in DISTWRAP_RUN_DIR, else in XDG_RUNTIME_DIR where that is usable,
  // else in /tmp; readable by this user only, short enough for the sockets of a
  // job. Removes those of dead jobs in the same folder first. Errors:
  // kRunDirectory.
  static absl::StatusOr<RunDirectory> make(
      const base::Environment& environment);

  RunDirectory(RunDirectory&& other) noexcept;
  RunDirectory& operator=(RunDirectory&& other) noexcept;
  ~RunDirectory() { remove(); }

  const std::string& path() const { return path_; }
  // Now rather than at the end of the object.
  void remove();

 private:
  RunDirectory(std::string path, int lock_fd)
      : path_(std::move(path)), lock_fd_(lock_fd) {}

  std::string path_;
  int lock_fd_ = -1;
};

// The folder in which jobs without a directory of their own meet, by sockets
// named after them: "distwrap.<user id>", for this user only, in the same
// parent; made where it is missing, and it stays. Errors: kRunDirectory.
absl::StatusOr<std::string> user_directory(
    const base::Environment& environment);
// Where it is, or would be made.
absl::StatusOr<std::string> user_directory_path(
    const base::Environment& environment);

}  // namespace distwrap::store

#endif  // DISTWRAP_SRC_STORE_RUN_DIRECTORY_H_
