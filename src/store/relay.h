// A host's agent: carries the store of another host to the processes of this
// one. What connects to a Unix socket here goes on as a stream of one control
// connection, so the processes need neither the job's key nor a port.
//
// Threads: the loop's thread, which ignores or blocks SIGPIPE. Ownership: as of
// Server.
//
//   auto relay = Relay::listen(loop, directory + "/store", root, psk);
#ifndef DISTWRAP_SRC_STORE_RELAY_H_
#define DISTWRAP_SRC_STORE_RELAY_H_

#include "store/network_address.h"
#include "store/tls_channel.h"

#include <absl/status/statusor.h>

#include <memory>
#include <string>

struct uv_loop_s;

namespace distwrap::store {

class Relay {
 public:
  // `path`: as of Server::listen. `root`: where the store is served. Errors:
  // kRunDirectory.
  static absl::StatusOr<std::unique_ptr<Relay>> listen(
      uv_loop_s* loop, const std::string& path, const NetworkAddress& root,
      TlsPsk psk);
  // Ends all connections.
  ~Relay();

  class Impl;

 private:
  explicit Relay(Impl* impl) : impl_(impl) {}
  Impl* impl_;  // frees itself when its last handle is closed
};

}  // namespace distwrap::store

#endif  // DISTWRAP_SRC_STORE_RELAY_H_
