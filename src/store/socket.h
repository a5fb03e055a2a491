// A connected Unix socket whose every step has a deadline.
//
// Threads: one at a time. Ownership: the object owns the descriptor.
//
//   auto socket = Socket::connect("/run/x/store", {.deadline = deadline});
//   if (socket->send(frame, deadline).kind == Io::kDone) ...
#ifndef DISTWRAP_SRC_STORE_SOCKET_H_
#define DISTWRAP_SRC_STORE_SOCKET_H_

#include "distwrap/deadline.h"

#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>

#include <cstddef>
#include <string>

namespace distwrap::store {

// The end of a step.
struct Io {
  enum Kind { kDone, kTimedOut, kBroken } kind = kDone;
  int error = 0;  // errno for kBroken; 0 when the peer has closed
};

// Whether a path fits in a socket address.
bool fits_socket_address(absl::string_view path);

class Socket {
 public:
  struct ConnectOptions {
    Deadline deadline = {};
    // Whether to wait for a server that is not there yet.
    bool wait_for_server = true;
  };
  // `path` fits into a socket address. Errors: kStoreUnreachable with path,
  // number of attempts and errno; kAuthFailed when the socket belongs to
  // another user; kResourceLimit.
  static absl::StatusOr<Socket> connect(const std::string& path,
                                        const ConnectOptions& options);

  Socket(Socket&& other) noexcept : fd_(other.fd_) { other.fd_ = -1; }
  Socket& operator=(Socket&& other) noexcept;
  ~Socket();

  Io send(absl::string_view bytes, Deadline deadline);
  // Receives exactly `size` bytes.
  Io receive(char* bytes, size_t size, Deadline deadline);

 private:
  explicit Socket(int fd);
  Io wait(short events, Deadline deadline);

  int fd_ = -1;
};

}  // namespace distwrap::store

#endif  // DISTWRAP_SRC_STORE_SOCKET_H_
