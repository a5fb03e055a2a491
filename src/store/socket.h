// A connected socket whose every step has a deadline: a Unix socket by itself,
// a TCP socket below a control connection.
//
// Threads: one at a time. Ownership: the object owns the descriptor.
//
//   auto socket = Socket::connect("/run/x/store", {.deadline = deadline});
//   if (socket->send(frame, deadline).kind == Io::kDone) ...
#ifndef DISTWRAP_SRC_STORE_SOCKET_H_
#define DISTWRAP_SRC_STORE_SOCKET_H_

#include "distwrap/deadline.h"
#include "store/byte_stream.h"
#include "store/network_address.h"

#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>

#include <cstddef>
#include <string>

namespace distwrap::store {

// Whether a path fits in a socket address.
bool fits_socket_address(absl::string_view path);

class Socket final : public ByteStream {
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

  // One attempt. Sets `*error` to an errno, ETIMEDOUT at the deadline, when the
  // status is kStoreUnreachable. Errors: also kResourceLimit.
  static absl::StatusOr<Socket> connect(const NetworkAddress& address,
                                        Deadline deadline, int* error);

  Socket(Socket&& other) noexcept : fd_(other.fd_) { other.fd_ = -1; }
  Socket& operator=(Socket&& other) noexcept;
  ~Socket() override;

  Io send(absl::string_view bytes, Deadline deadline) override;
  Io receive(char* bytes, size_t size, Deadline deadline) override;
  void shut() override;
  // Receives up to `*size` bytes, at least one, and sets `*size`.
  Io receive_some(char* bytes, size_t* size, Deadline deadline);
  int descriptor() const { return fd_; }

 private:
  explicit Socket(int fd);
  Io wait(short events, Deadline deadline);

  int fd_ = -1;
};

}  // namespace distwrap::store

#endif  // DISTWRAP_SRC_STORE_SOCKET_H_
