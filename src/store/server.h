// Serves a store over a Unix socket to processes of this user on this host, and
// over TLS to those that have the job's key.
//
// Threads: the loop's thread, which ignores or blocks SIGPIPE.
// Ownership: the caller owns the loop and runs it. After `close` or
// destruction the loop has to run until the server's handles are closed.
//
//   auto server = Server::listen(uv_default_loop(), directory + "/store");
//   uv_run(loop, UV_RUN_DEFAULT);
#ifndef DISTWRAP_SRC_STORE_SERVER_H_
#define DISTWRAP_SRC_STORE_SERVER_H_

#include "store/network_address.h"
#include "store/tls_channel.h"

#include <absl/status/statusor.h>
#include <absl/time/time.h>

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

struct uv_loop_s;

namespace distwrap::store {

struct ServerOptions {
  // Further connections are closed at once. A rank has two or more; those that
  // an agent carries need no descriptor here.
  size_t max_connections = 65'536;
  // With more connections than this that have not proved that they may join,
  // the oldest is closed: strangers cannot keep the job's own processes out.
  size_t max_strangers = 1024;
  // The time that a connection has to prove it.
  absl::Duration handshake = absl::Seconds(5);
};

// Where a store is served beside its Unix socket.
struct NetworkService {
  std::string host = {};
  std::vector<int> ports = {};  // the first one that is free is taken
  TlsPsk psk = {};
};

class Server {
 public:
  // `path` lies in a private directory and does not exist yet; the server
  // removes it at its end. Errors: kRunDirectory.
  static absl::StatusOr<std::unique_ptr<Server>> listen(
      uv_loop_s* loop, const std::string& path,
      const ServerOptions& options = {});
  ~Server();

  // Serves the same keys in the network. Once for each server. Errors:
  // kStoreUnreachable when the address is not this host's, means this host
  // alone to others, or all ports are taken.
  absl::Status listen_at(const NetworkService& network);
  // The address of `listen_at`.
  std::string network_address() const;

  // Ends all connections; waiting calls end with kStoreUnreachable.
  void close();

  // The present number of clients, strangers among them, for any thread.
  size_t connections() const;
  // How many connections were closed before they had proved that they may join.
  size_t turned_away() const;

  class Impl;

 private:
  explicit Server(Impl* impl) : impl_(impl) {}
  Impl* impl_;  // frees itself when its last handle is closed
};

}  // namespace distwrap::store

#endif  // DISTWRAP_SRC_STORE_SERVER_H_
