// A control connection to another host, for a thread that waits.
//
// Threads: one at a time. Ownership: the object owns its socket.
#ifndef DISTWRAP_SRC_STORE_TLS_SOCKET_H_
#define DISTWRAP_SRC_STORE_TLS_SOCKET_H_

#include "store/byte_stream.h"
#include "store/control_channel.h"
#include "store/network_address.h"
#include "store/socket.h"

#include <absl/status/statusor.h>

#include <memory>
#include <string>

namespace distwrap::store {

class TlsSocket final : public ByteStream {
 public:
  // One attempt. `*error`: as of Socket::connect, 0 for a failure after the
  // connection was made. Errors: kStoreUnreachable, kAuthFailed when the server
  // has another key or is none of ours, kResourceLimit, kOutOfMemory.
  static absl::StatusOr<std::unique_ptr<TlsSocket>> connect(
      const NetworkAddress& address, const TlsPsk& psk, Deadline deadline,
      int* error);

  Io send(absl::string_view bytes, Deadline deadline) override;
  Io receive(char* bytes, size_t size, Deadline deadline) override;
  void shut() override { socket_.shut(); }

 private:
  TlsSocket(Socket socket, std::unique_ptr<ControlChannel> channel)
      : socket_(std::move(socket)), channel_(std::move(channel)) {}
  Io step(Deadline deadline);
  absl::Status greet(const NetworkAddress& address, Deadline deadline);

  Socket socket_;
  std::unique_ptr<ControlChannel> channel_;
  std::string plain_;  // bytes that have arrived and nobody has taken
};

}  // namespace distwrap::store

#endif  // DISTWRAP_SRC_STORE_TLS_SOCKET_H_
