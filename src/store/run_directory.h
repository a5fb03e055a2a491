// A private directory for the sockets of one job, removed at its end.
//
// Threads: one at a time. Ownership: the object removes the directory. A lock
// on the directory shows that its job lives. The kernel releases the lock with
// the process, so the next job recognises and removes the directory of a killed
// one.
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
  // Creates a directory in DISTWRAP_RUN_DIR, or else in XDG_RUNTIME_DIR if
  // usable, or else in /tmp. Only this user can read it, and its path is short
  // enough for the sockets of a job. First removes the directories of dead jobs
  // in the same folder. Errors: kRunDirectory.
  static absl::StatusOr<RunDirectory> make(
      const base::Environment& environment);

  RunDirectory(RunDirectory&& other) noexcept;
  RunDirectory& operator=(RunDirectory&& other) noexcept;
  ~RunDirectory() { remove(); }

  const std::string& path() const { return path_; }
  // Removes the directory now instead of at the end of the object.
  void remove();

 private:
  RunDirectory(std::string path, int lock_fd)
      : path_(std::move(path)), lock_fd_(lock_fd) {}

  std::string path_;
  int lock_fd_ = -1;
};

// The folder for jobs without a directory of their own, which meet at sockets
// named after the job: "distwrap.<user id>" in the same parent folder, for this
// user only. Created when it is missing, and never removed. Errors:
// kRunDirectory.
absl::StatusOr<std::string> user_directory(
    const base::Environment& environment);
// The path of that folder, which need not exist.
absl::StatusOr<std::string> user_directory_path(
    const base::Environment& environment);

}  // namespace distwrap::store

#endif  // DISTWRAP_SRC_STORE_RUN_DIRECTORY_H_
