// Serves a store over a Unix socket to processes of this user on this host.
//
// Threads: the loop's thread, which ignores or blocks SIGPIPE.
// Ownership: the caller owns the loop and runs it. After `close` or
// destruction the loop has to run until the server's handles are closed.
//
//   auto server = Server::listen(uv_default_loop(), directory + "/store");
//   uv_run(loop, UV_RUN_DEFAULT);
#ifndef DISTWRAP_SRC_STORE_SERVER_H_
#define DISTWRAP_SRC_STORE_SERVER_H_

#include <absl/status/statusor.h>

#include <cstddef>
#include <memory>
#include <string>

struct uv_loop_s;

namespace distwrap::store {

struct ServerOptions {
  // Further connections are closed at once.
  size_t max_connections = 1024;
};

class Server {
 public:
  // `path` lies in a private directory and does not exist yet; the server
  // removes it at its end. Errors: kRunDirectory.
  static absl::StatusOr<std::unique_ptr<Server>> listen(
      uv_loop_s* loop, const std::string& path,
      const ServerOptions& options = {});
  ~Server();

  // Ends all connections; waiting calls end with kStoreUnreachable.
  void close();

  size_t connections() const;

  class Impl;

 private:
  explicit Server(Impl* impl) : impl_(impl) {}
  Impl* impl_;  // frees itself when its last handle is closed
};

}  // namespace distwrap::store

#endif  // DISTWRAP_SRC_STORE_SERVER_H_
