#include "store/hosted_store.h"

#include "base/error.h"
#include "base/mutex.h"
#include "store/process_identity.h"
#include "store/run_directory.h"
#include "store/server_thread.h"
#include "store/socket.h"

#include <absl/cleanup/cleanup.h>
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
// A process that is ending releases its place within this time; after it the
// error names the process that holds the place.
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

// A record lock, because a flock would be inherited by a forked child and
// survive the process.
struct flock whole_file() {
  struct flock lock = {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  return lock;
}

// The lock's file descriptor, or -1 with the holder's id or an errno.
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
    // The previous holder may have removed the file before the lock was taken.
    struct stat held = {}, there = {};
    if (fstat(fd, &held) == 0 && lstat(path.c_str(), &there) == 0 &&
        held.st_ino == there.st_ino && held.st_dev == there.st_dev)
      return {.fd = fd};
    close(fd);
  }
}

// Records the time since when this process holds the place, for the case that
// it is killed.
void sign(int lock_fd) {
  const std::string text = absl::StrCat(boot_clock_ns(), " ", getpid());
  if (ftruncate(lock_fd, 0) == 0)
    (void)!pwrite(lock_fd, text.data(), text.size(), 0);
}

// The process that signed last, unless it still holds the lock or has released
// its place.
std::optional<DeadHost> read_signature(const std::string& lock_path) {
  const int fd = open(lock_path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0) return std::nullopt;
  char text[64];
  const ssize_t size = pread(fd, text, sizeof text, 0);
  // Checked after reading the text, because a process locks before it signs.
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

// Removes the remains of a dead process at the path; this process holds the
// lock.
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
  // A server that answers here without a lock is not a dead process.
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

  absl::Status host(const std::string& path, Deadline deadline,
                    const std::optional<NetworkService>& network) {
    base::MutexLock lock(mutex_);
    notice_fork();
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
    return serve(path, held.fd,
                 [&] { return ServerThread::start(path, {}, network); });
  }

  absl::StatusOr<pid_t> host_agent(
      const std::string& path,
      absl::FunctionRef<absl::StatusOr<NetworkAddress>()> find,
      const TlsPsk& psk) {
    base::MutexLock lock(mutex_);
    notice_fork();
    if (stores_.find(path) != stores_.end()) return getpid();
    const std::string lock_path = absl::StrCat(path, kLockSuffix);
    const Lock held = take_lock(lock_path);
    if (held.fd < 0 && held.holder != 0) return held.holder;
    if (held.fd < 0)
      return blocked(path, absl::StrCat(lock_path, " cannot be locked"),
                     base::errno_text(held.error));
    absl::Status served = serve(
        path, held.fd, [&]() -> absl::StatusOr<std::unique_ptr<ServerThread>> {
          const absl::StatusOr<NetworkAddress> root = find();
          if (!root.ok()) return root.status();
          return ServerThread::start_agent(path, *root, psk);
        });
    if (!served.ok()) return served;
    return getpid();
  }

  pid_t serving_process(const std::string& path) {
    base::MutexLock lock(mutex_);
    notice_fork();
    // Closing any descriptor of a file releases the process's record lock on
    // it.
    if (stores_.find(path) != stores_.end()) return getpid();
    const int fd = open(absl::StrCat(path, kLockSuffix).c_str(),
                        O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0) return 0;
    struct flock held = whole_file();
    if (fcntl(fd, F_GETLK, &held) != 0 || held.l_type == F_UNLCK)
      held.l_pid = 0;
    close(fd);
    return held.l_pid;
  }

  std::optional<DeadHost> dead(const std::string& path) {
    base::MutexLock lock(mutex_);
    // Closing any descriptor of a file releases the process's record lock on
    // it.
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
  using Start =
      absl::FunctionRef<absl::StatusOr<std::unique_ptr<ServerThread>>()>;

  // A forked child has neither the locks nor the threads of its parent.
  void notice_fork() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (pid_ == getpid()) return;
    for (auto& [name, stored] : stores_)
      parents_.push_back(std::move(stored.server));
    stores_.clear();
    pid_ = getpid();
  }

  // Takes the place whose lock this process holds, and releases the lock if it
  // cannot.
  absl::Status serve(const std::string& path, int lock_fd, Start start)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    absl::Cleanup give_up = [&] {
      unlink(absl::StrCat(path, kLockSuffix).c_str());
      close(lock_fd);
    };
    sign(lock_fd);
    if (absl::Status status = clear(path); !status.ok()) return status;
    absl::StatusOr<std::unique_ptr<ServerThread>> server = start();
    if (!server.ok()) return server.status();
    stores_[path] = {lock_fd, *std::move(server)};
    std::move(give_up).Cancel();
    const std::string folder = path.substr(0, path.rfind('/'));
    if (absl::EndsWith(folder, absl::StrCat("/distwrap.", geteuid())))
      remove_dead(folder);
    return absl::OkStatus();
  }

  // Removes the sockets of dead jobs from a folder that only distwrap uses.
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
      // Closing any descriptor of a file releases the process's record lock on
      // it.
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
  // Servers of the parent process of a fork; this process must never end them.
  std::vector<std::unique_ptr<ServerThread>> parents_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

absl::StatusOr<std::string> meeting_path(const base::Environment& environment,
                                         absl::string_view name) {
  const absl::StatusOr<std::string> folder = user_directory(environment);
  if (!folder.ok()) return folder.status();
  constexpr size_t kHash = 16;  // length of the hash at the end of a name
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

absl::Status host_store(const std::string& path, Deadline deadline,
                        const std::optional<NetworkService>& network) {
  return HostedStores::of_process().host(path, deadline, network);
}

absl::StatusOr<pid_t> host_agent(
    const std::string& path,
    absl::FunctionRef<absl::StatusOr<NetworkAddress>()> find,
    const TlsPsk& psk) {
  return HostedStores::of_process().host_agent(path, find, psk);
}

pid_t serving_process(const std::string& path) {
  return HostedStores::of_process().serving_process(path);
}

std::optional<DeadHost> dead_host(const std::string& path) {
  return HostedStores::of_process().dead(path);
}

}  // namespace distwrap::store
