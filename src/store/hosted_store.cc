#include "store/hosted_store.h"

#include "base/error.h"
#include "base/mutex.h"
#include "store/process_identity.h"
#include "store/run_directory.h"
#include "store/server_thread.h"
#include "store/socket.h"

#include <absl/strings/match.h>
#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_split.h>

#include <algorithm>
#include <cstdlib>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <map>
#include <memory>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>
#include <vector>

namespace distwrap::store {
namespace {

constexpr char kLockSuffix[] = ".lock";
// A process that is ending gives its place up in this time; one that is not is
// named as soon.
constexpr absl::Duration kHandOver = absl::Milliseconds(100);
constexpr absl::Duration kPause = absl::Milliseconds(10);

absl::Status taken(const std::string& path, pid_t holder) {
  return base::make_error(
      {.reason = Reason::kStoreUnreachable,
       .what = absl::StrCat("unix:", path, " is served by process ", holder),
       .op = "store listen",
       .expected = "a place that only this job has",
       .next_step = absl::StrCat("see what process ", holder,
                                 " is; two jobs need different job ids "
                                 "(DISTWRAP_JOB_ID) or init methods")});
}

absl::Status blocked(const std::string& path, absl::string_view what,
                     absl::string_view cause) {
  return base::make_error(
      {.reason = Reason::kRunDirectory,
       .what =
           absl::StrCat("no store can be served at unix:", path, ": ", what),
       .op = "store listen",
       .cause = std::string(cause),
       .next_step = "remove it if nobody needs it, or choose another place"});
}

// Not a flock, which a forked child would keep beyond the process's end.
struct flock whole_file() {
  struct flock lock = {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  return lock;
}

// The descriptor of the lock; -1 with the holder, or with errno.
struct Lock {
  int fd = -1;
  pid_t holder = 0;
  int error = 0;
};

Lock take_lock(const std::string& path) {
  for (;;) {
    const int fd =
        open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) return {.error = errno};
    struct flock lock = whole_file();
    if (fcntl(fd, F_SETLK, &lock) != 0) {
      Lock result{.error = errno};
      lock = whole_file();
      if (fcntl(fd, F_GETLK, &lock) == 0 && lock.l_type != F_UNLCK)
        result.holder = lock.l_pid;
      close(fd);
      return result;
    }
    // Whoever had it may have removed the file in between.
    struct stat held = {}, there = {};
    if (fstat(fd, &held) == 0 && lstat(path.c_str(), &there) == 0 &&
        held.st_ino == there.st_ino && held.st_dev == there.st_dev)
      return {.fd = fd};
    close(fd);
  }
}

// Tells, should this process be killed, since when it was there.
void sign(int lock_fd) {
  const std::string text = absl::StrCat(boot_clock_ns(), " ", getpid());
  if (ftruncate(lock_fd, 0) == 0)
    (void)!pwrite(lock_fd, text.data(), text.size(), 0);
}

// Who signed, unless the lock is held or was given up.
std::optional<DeadHost> read_signature(const std::string& lock_path) {
  const int fd = open(lock_path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0) return std::nullopt;
  char text[64];
  const ssize_t size = pread(fd, text, sizeof text, 0);
  // After the text: who signs holds the lock already.
  struct flock lock = whole_file();
  struct stat info = {};
  const bool dead = fcntl(fd, F_GETLK, &lock) == 0 && lock.l_type == F_UNLCK &&
                    fstat(fd, &info) == 0 && info.st_uid == geteuid() &&
                    info.st_nlink == 1;
  close(fd);
  if (!dead || size <= 0) return std::nullopt;
  const std::pair<std::string, std::string> parts =
      absl::StrSplit(absl::string_view(text, static_cast<size_t>(size)), ' ');
  DeadHost host;
  if (!absl::SimpleAtoi(parts.first, &host.since_ns) ||
      !absl::SimpleAtoi(parts.second, &host.pid))
    return std::nullopt;
  return host;
}

// What a dead process left at the path; the lock is ours.
absl::Status clear(const std::string& path) {
  struct stat info = {};
  if (lstat(path.c_str(), &info) != 0) {
    if (errno == ENOENT) return absl::OkStatus();
    return blocked(path, "the path cannot be read", base::errno_text(errno));
  }
  if (!S_ISSOCK(info.st_mode))
    return blocked(path, "a file that is no socket is there", "");
  if (info.st_uid != geteuid())
    return blocked(path, "a socket of another user is there",
                   absl::StrCat("user id ", info.st_uid));
  // Served by somebody who takes no locks of ours: not a dead one's.
  if (Socket::connect(
          path, {.deadline = Deadline::after(kPause), .wait_for_server = false})
          .ok())
    return blocked(path, "another program serves a socket there", "");
  if (unlink(path.c_str()) != 0)
    return blocked(path, "the socket of a dead job cannot be removed",
                   base::errno_text(errno));
  return absl::OkStatus();
}

class HostedStores {
 public:
  static HostedStores& of_process() {
    static HostedStores* const stores = [] {
      auto* const made = new HostedStores;  // never freed: threads may use it
      std::atexit([] { of_process().end(); });
      return made;
    }();
    return *stores;
  }

  absl::Status host(const std::string& path, Deadline deadline) {
    base::MutexLock lock(mutex_);
    if (pid_ != getpid()) {
      // A forked child has neither the parent's locks nor its threads.
      for (auto& [name, stored] : stores_)
        parents_.push_back(std::move(stored.server));
      stores_.clear();
      pid_ = getpid();
    }
    if (stores_.find(path) != stores_.end()) return absl::OkStatus();
    const Deadline until =
        Deadline::earlier(deadline, Deadline::after(kHandOver));
    const std::string lock_path = absl::StrCat(path, kLockSuffix);
    Lock held = take_lock(lock_path);
    while (held.fd < 0 && held.holder != 0 && !until.passed()) {
      poll(nullptr, 0, static_cast<int>(absl::ToInt64Milliseconds(kPause)));
      held = take_lock(lock_path);
    }
    if (held.fd < 0)
      return held.holder != 0
                 ? taken(path, held.holder)
                 : blocked(path, absl::StrCat(lock_path, " cannot be locked"),
                           base::errno_text(held.error));
    sign(held.fd);
    absl::Status status = clear(path);
    if (status.ok()) {
      auto server = ServerThread::start(path);
      if (server.ok()) {
        stores_[path] = {held.fd, *std::move(server)};
        const std::string folder = path.substr(0, path.rfind('/'));
        if (absl::EndsWith(folder, absl::StrCat("/distwrap.", geteuid())))
          remove_dead(folder);
        return absl::OkStatus();
      }
      status = server.status();
    }
    unlink(lock_path.c_str());
    close(held.fd);
    return status;
  }

  std::optional<DeadHost> dead(const std::string& path) {
    base::MutexLock lock(mutex_);
    // Closing a second descriptor of it would give up a lock of our own.
    if (stores_.find(path) != stores_.end()) return std::nullopt;
    return read_signature(absl::StrCat(path, kLockSuffix));
  }

  // The process ends.
  void end() {
    base::MutexLock lock(mutex_);
    if (pid_ != getpid()) return;
    for (auto& [path, stored] : stores_) {
      stored.server.reset();
      unlink(path.c_str());
      unlink(absl::StrCat(path, kLockSuffix).c_str());
      close(stored.lock_fd);
    }
    stores_.clear();
  }

 private:
  // Sockets of dead jobs in a folder where all files are ours.
  void remove_dead(const std::string& folder)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const std::unique_ptr<DIR, int (*)(DIR*)> open(opendir(folder.c_str()),
                                                   &closedir);
    if (open == nullptr) return;
    std::vector<std::string> paths;
    while (const dirent* entry = readdir(open.get())) {
      const absl::string_view name = entry->d_name;
      if (absl::EndsWith(name, kLockSuffix))
        paths.push_back(absl::StrCat(
            folder, "/", name.substr(0, name.size() + 1 - sizeof kLockSuffix)));
    }
    for (const std::string& path : paths) {
      // Closing a second descriptor of it would give up a lock of our own.
      if (stores_.find(path) != stores_.end()) continue;
      const std::string lock_path = absl::StrCat(path, kLockSuffix);
      const Lock lock = take_lock(lock_path);
      if (lock.fd < 0) continue;
      if (clear(path).ok()) unlink(lock_path.c_str());
      close(lock.fd);
    }
  }

  struct Stored {
    int lock_fd = -1;
    std::unique_ptr<ServerThread> server = nullptr;
  };
  base::Mutex mutex_;
  pid_t pid_ ABSL_GUARDED_BY(mutex_) = getpid();
  std::map<std::string, Stored> stores_ ABSL_GUARDED_BY(mutex_);
  // Servers of the process that forked this one: kept, and never ended here.
  std::vector<std::unique_ptr<ServerThread>> parents_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

absl::StatusOr<std::string> meeting_path(const base::Environment& environment,
                                         absl::string_view name) {
  const absl::StatusOr<std::string> folder = user_directory(environment);
  if (!folder.ok()) return folder.status();
  constexpr size_t kHash = 16;  // the end of a name
  for (const absl::string_view part :
       {name, name.substr(name.size() - std::min(kHash, name.size()))}) {
    std::string path = absl::StrCat(*folder, "/", part);
    if (fits_socket_address(path)) return path;
  }
  return base::make_error(
      {.reason = Reason::kRunDirectory,
       .what = absl::StrCat("the path ", *folder, " is too long for a socket"),
       .op = "init",
       .next_step = "set DISTWRAP_RUN_DIR to a short path of a folder of "
                    "yours"});
}

absl::Status host_store(const std::string& path, Deadline deadline) {
  return HostedStores::of_process().host(path, deadline);
}

std::optional<DeadHost> dead_host(const std::string& path) {
  return HostedStores::of_process().dead(path);
}

}  // namespace distwrap::store
