#include "store/run_directory.h"

#include "base/error.h"
#include "store/socket.h"

#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <filesystem>
#include <memory>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>
#include <utility>
#include <vector>

namespace distwrap::store {
namespace {

using base::Setting;

constexpr char kPrefix[] = "distwrap-";
constexpr size_t kRandomLetters = 6;
// Room for the names of sockets.
constexpr char kLongestName[] = "/0123456789abcdef";
// A directory may be removed as a dead job's before it is locked. That cannot
// happen so many times in a row.
constexpr int kAttempts = 8;

absl::Status refused(absl::string_view parent, absl::string_view what,
                     absl::string_view cause) {
  return base::make_error(
      {.reason = Reason::kRunDirectory,
       .what = absl::StrCat("no run directory in ", parent, ": ", what),
       .op = "start",
       .cause = std::string(cause),
       .next_step = "set DISTWRAP_RUN_DIR to a folder of yours that only you "
                    "can write to"});
}

// Whether other users could replace a directory in `parent`.
absl::Status check_parent(const std::string& parent) {
  struct stat info = {};
  if (stat(parent.c_str(), &info) != 0)
    return refused(parent, "it cannot be read", base::errno_text(errno));
  if (!S_ISDIR(info.st_mode)) return refused(parent, "it is not a folder", "");
  if (info.st_uid != geteuid() && info.st_uid != 0)
    return refused(parent, "it belongs to another user",
                   absl::StrCat("user id ", info.st_uid));
  if ((info.st_mode & (S_IWGRP | S_IWOTH)) != 0 &&
      (info.st_mode & S_ISVTX) == 0)
    return refused(parent, "others may rename what is in it",
                   "it is writable by others and not sticky");
  return absl::OkStatus();
}

bool is_usable(const std::string& parent) {
  return absl::StartsWith(parent, "/") && check_parent(parent).ok() &&
         access(parent.c_str(), W_OK | X_OK) == 0;
}

bool is_ours(const struct stat& info) {
  return S_ISDIR(info.st_mode) && info.st_uid == geteuid() &&
         (info.st_mode & 077) == 0;
}

// The locked file descriptor of a directory; -1 with errno when it has another
// owner or does not exist.
int lock_directory(const std::string& path) {
  const int fd =
      open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0) return -1;
  struct stat info = {};
  if (flock(fd, LOCK_EX | LOCK_NB) == 0 && fstat(fd, &info) == 0 &&
      info.st_nlink > 0)
    return fd;
  close(fd);
  return -1;
}

void remove_tree(const std::string& path) {
  std::error_code ignored;  // the next start removes what remains
  std::filesystem::remove_all(path, ignored);
}

// Removes the directories of jobs that ended without removing them.
void remove_dead(const std::string& parent) {
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(opendir(parent.c_str()),
                                                   &closedir);
  if (folder == nullptr) return;
  std::vector<std::string> found;
  while (const dirent* entry = readdir(folder.get())) {
    const absl::string_view name = entry->d_name;
    if (absl::StartsWith(name, kPrefix) &&
        name.size() == sizeof kPrefix - 1 + kRandomLetters)
      found.push_back(absl::StrCat(parent, "/", name));
  }
  for (const std::string& path : found) {
    const int fd = lock_directory(path);
    if (fd < 0) continue;
    struct stat info = {};
    if (fstat(fd, &info) == 0 && is_ours(info)) remove_tree(path);
    close(fd);
  }
}

absl::StatusOr<std::string> choose_parent(
    const base::Environment& environment) {
  const std::optional<std::string> chosen = environment.get(Setting::kRunDir);
  if (chosen.has_value()) {
    if (!absl::StartsWith(*chosen, "/"))
      return refused(*chosen, "DISTWRAP_RUN_DIR is not an absolute path", "");
    if (absl::Status status = check_parent(*chosen); !status.ok())
      return status;
    return *chosen;
  }
  const std::optional<std::string> session = environment.get("XDG_RUNTIME_DIR");
  if (session.has_value() && is_usable(*session)) return *session;
  if (absl::Status status = check_parent("/tmp"); !status.ok()) return status;
  return std::string("/tmp");
}

}  // namespace

absl::StatusOr<RunDirectory> RunDirectory::make(
    const base::Environment& environment) {
  const absl::StatusOr<std::string> parent = choose_parent(environment);
  if (!parent.ok()) return parent.status();
  const std::string pattern =
      absl::StrCat(*parent, "/", kPrefix, std::string(kRandomLetters, 'X'));
  if (!fits_socket_address(absl::StrCat(pattern, kLongestName)))
    return refused(*parent, "its path is too long for a socket",
                   absl::StrCat(parent->size(), " bytes"));
  remove_dead(*parent);
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    std::string path = pattern;
    if (mkdtemp(path.data()) == nullptr)
      return refused(*parent, "it cannot be made", base::errno_text(errno));
    const int fd = lock_directory(path);
    if (fd < 0) continue;
    struct stat info = {};
    const bool is_private = fstat(fd, &info) == 0 && is_ours(info);
    RunDirectory directory(std::move(path), fd);
    if (is_private) return directory;
    return refused(*parent, "what was made in it is not private",
                   absl::StrCat("user id ", info.st_uid, ", mode 0",
                                absl::Hex(info.st_mode >> 6 & 7),
                                absl::Hex(info.st_mode >> 3 & 7),
                                absl::Hex(info.st_mode & 7)));
  }
  return refused(*parent, "it cannot be locked", base::errno_text(errno));
}

absl::StatusOr<std::string> user_directory_path(
    const base::Environment& environment) {
  const absl::StatusOr<std::string> parent = choose_parent(environment);
  if (!parent.ok()) return parent.status();
  return absl::StrCat(*parent, "/distwrap.", geteuid());
}

absl::StatusOr<std::string> user_directory(
    const base::Environment& environment) {
  const absl::StatusOr<std::string> chosen = user_directory_path(environment);
  if (!chosen.ok()) return chosen.status();
  const std::string& path = *chosen;
  const std::string parent = path.substr(0, path.rfind('/'));
  if (mkdir(path.c_str(), 0700) != 0 && errno != EEXIST)
    return refused(parent, absl::StrCat(path, " cannot be made"),
                   base::errno_text(errno));
  struct stat info = {};
  if (lstat(path.c_str(), &info) != 0)
    return refused(parent, absl::StrCat(path, " cannot be read"),
                   base::errno_text(errno));
  if (!is_ours(info))
    return refused(parent,
                   absl::StrCat(path,
                                " is not a folder of yours "
                                "alone"),
                   absl::StrCat("user id ", info.st_uid, ", mode 0",
                                absl::Hex(info.st_mode >> 6 & 7),
                                absl::Hex(info.st_mode >> 3 & 7),
                                absl::Hex(info.st_mode & 7)));
  return path;
}

RunDirectory::RunDirectory(RunDirectory&& other) noexcept
    : path_(std::exchange(other.path_, {})),
      lock_fd_(std::exchange(other.lock_fd_, -1)) {}

RunDirectory& RunDirectory::operator=(RunDirectory&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(lock_fd_, other.lock_fd_);
  return *this;
}

void RunDirectory::remove() {
  if (lock_fd_ < 0) return;
  remove_tree(path_);
  close(std::exchange(lock_fd_, -1));
}

}  // namespace distwrap::store
