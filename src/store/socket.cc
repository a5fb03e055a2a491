#include "store/socket.h"

#include "base/child_closes.h"
#include "base/error.h"
#include "store/interrupt.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <utility>

namespace distwrap::store {
namespace {

constexpr absl::Duration kFirstPause = absl::Milliseconds(1);
constexpr absl::Duration kLongestPause = absl::Milliseconds(20);

// No event announces a server that appears at a path, so connecting is repeated
// after pauses of growing length. False when the start was interrupted.
bool pause(absl::Duration length, Deadline deadline) {
  return Interrupt::sleep(Deadline::earlier(deadline, Deadline::after(length)));
}

absl::Status unreachable(const std::string& path, int attempts, int error) {
  return base::make_error(
      {.reason = Reason::kStoreUnreachable,
       .what = absl::StrCat("no store answers at unix:", path, " after ",
                            attempts, attempts == 1 ? " attempt" : " attempts"),
       .op = "store connect",
       .cause = base::errno_text(error),
       .next_step = "check whether rank 0 or `distwrap run`, which serves it, "
                    "was started and still runs"});
}

absl::Status other_user(const std::string& path, absl::string_view cause) {
  return base::make_error(
      {.reason = Reason::kAuthFailed,
       .what =
           absl::StrCat("the store at unix:", path, " belongs to another user"),
       .op = "store connect",
       .expected = absl::StrCat("user id ", geteuid()),
       .cause = std::string(cause),
       .next_step = "start all ranks of a job as one user"});
}

int open_socket(int family) {
  return ::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
}

absl::Status no_socket(int error) {
  return base::make_error({.reason = Reason::kResourceLimit,
                           .what = "no socket can be made",
                           .op = "store connect",
                           .cause = base::errno_text(error),
                           .next_step = "raise `ulimit -n`"});
}

}  // namespace

bool fits_socket_address(absl::string_view path) {
  return path.size() < sizeof(sockaddr_un::sun_path);
}

absl::StatusOr<Socket> Socket::connect(const std::string& path,
                                       const ConnectOptions& options) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  memcpy(address.sun_path, path.data(), path.size());

  absl::Duration length = kFirstPause;
  for (int attempts = 1;; ++attempts) {
    const int fd = open_socket(AF_UNIX);
    if (fd < 0) return no_socket(errno);
    Socket socket(fd);
    // A Unix socket connects at once or fails.
    if (::connect(fd, reinterpret_cast<const sockaddr*>(&address),
                  sizeof address) == 0) {
      ucred peer = {};
      socklen_t size = sizeof peer;
      if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0)
        return unreachable(path, attempts, errno);
      if (peer.uid != geteuid())
        return other_user(path, absl::StrCat("it runs as user id ", peer.uid));
      return socket;
    }
    const int error = errno;
    if (error == EACCES || error == EPERM)
      return other_user(path, base::errno_text(error));
    const bool absent = error == ENOENT || error == ECONNREFUSED;
    const bool again = error == EAGAIN || error == EINTR ||
                       (absent && options.wait_for_server);
    if (!again || options.deadline.passed())
      return unreachable(path, attempts, error);
    if (!pause(length, options.deadline))
      return Interrupt::error("store connect");
    length = std::min(length * 2, kLongestPause);
  }
}

absl::StatusOr<Socket> Socket::connect(const NetworkAddress& address,
                                       Deadline deadline, int* error) {
  const int fd = open_socket(address.get()->sa_family);
  if (fd < 0) return no_socket(errno);
  Socket socket(fd);
  *error = 0;
  if (::connect(fd, address.get(), address.size()) != 0) {
    *error = errno;
    if (*error == EINPROGRESS) {
      const Io io = socket.wait(POLLOUT, deadline);
      socklen_t size = sizeof *error;
      if (io.kind == Io::kInterrupted) return Interrupt::error("store connect");
      if (io.kind == Io::kTimedOut)
        *error = ETIMEDOUT;
      else if (getsockopt(fd, SOL_SOCKET, SO_ERROR, error, &size) != 0)
        *error = errno;
    }
  }
  if (*error == 0) return socket;
  return base::make_error(
      {.reason = Reason::kStoreUnreachable,
       .what = absl::StrCat("no store answers at ", address.text()),
       .op = "store connect",
       .cause = base::errno_text(*error)});
}

Socket::Socket(int fd) : fd_(fd) { base::ChildCloses::add(fd); }

Socket& Socket::operator=(Socket&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

Socket::~Socket() {
  if (fd_ < 0) return;
  base::ChildCloses::remove(fd_);
  close(fd_);
}

void Socket::shut() { ::shutdown(fd_, SHUT_RDWR); }

Io Socket::wait(short events, Deadline deadline) {
  for (;;) {
    pollfd entries[] = {
        {.fd = fd_, .events = events, .revents = 0},
        {.fd = Interrupt::descriptor(), .events = POLLIN, .revents = 0}};
    const nfds_t count = entries[1].fd < 0 ? 1 : 2;
    const int n = poll(entries, count, deadline.remaining_ms());
    // Errors and hang-ups appear in the call that follows.
    if (n > 0 && entries[0].revents != 0) return {};
    if (n > 0) {
      Interrupt::notice();
      return {Io::kInterrupted, 0};
    }
    if (n < 0 && errno != EINTR) return {Io::kBroken, errno};
    if (deadline.passed()) return {Io::kTimedOut, 0};
  }
}

Io Socket::send(absl::string_view bytes, Deadline deadline) {
  while (!bytes.empty()) {
    const ssize_t n = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n >= 0) {
      bytes.remove_prefix(static_cast<size_t>(n));
    } else if (errno == EAGAIN) {
      if (const Io io = wait(POLLOUT, deadline); io.kind != Io::kDone)
        return io;
    } else if (errno != EINTR) {
      return {Io::kBroken, errno};
    }
  }
  return {};
}

Io Socket::receive_some(char* bytes, size_t* size, Deadline deadline) {
  for (;;) {
    const ssize_t n = recv(fd_, bytes, *size, 0);
    if (n > 0) {
      *size = static_cast<size_t>(n);
      return {};
    }
    if (n == 0) return {Io::kBroken, 0};
    if (errno == EAGAIN) {
      if (const Io io = wait(POLLIN, deadline); io.kind != Io::kDone) return io;
    } else if (errno != EINTR) {
      return {Io::kBroken, errno};
    }
  }
}

Io Socket::receive(char* bytes, size_t size, Deadline deadline) {
  while (size > 0) {
    size_t some = size;
    if (const Io io = receive_some(bytes, &some, deadline);
        io.kind != Io::kDone)
      return io;
    bytes += some;
    size -= some;
  }
  return {};
}

}  // namespace distwrap::store
