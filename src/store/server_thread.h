// A server, or the agent of a host, with a thread of its own, for programs
// without an event loop.
//
// Threads: any, one at a time. Ownership: destruction ends server and thread.
//
//   auto server = ServerThread::start(directory + "/store");
//   auto store = Store::connect((*server)->address(), deadline);
#ifndef DISTWRAP_SRC_STORE_SERVER_THREAD_H_
#define DISTWRAP_SRC_STORE_SERVER_THREAD_H_

#include "store/server.h"

#include <absl/status/statusor.h>

#include <memory>
#include <optional>
#include <string>

namespace distwrap::store {

class ServerThread {
 public:
  // Errors as of Server::listen and base::start_thread.
  static absl::StatusOr<std::unique_ptr<ServerThread>> start(
      const std::string& path, const ServerOptions& options = {},
      const std::optional<NetworkService>& network = {});
  // Carries the store of another host. Errors as of Relay::listen and
  // base::start_thread.
  static absl::StatusOr<std::unique_ptr<ServerThread>> start_agent(
      const std::string& path, const NetworkAddress& root, TlsPsk psk);
  ~ServerThread();

  const std::string& address() const { return address_; }
  // For its counters, which any thread may read. An agent has none.
  const Server& server() const;

 private:
  struct State;
  explicit ServerThread(std::string address);
  absl::Status run(const char* thread);

  std::string address_;
  std::unique_ptr<State> state_;
};

}  // namespace distwrap::store

#endif  // DISTWRAP_SRC_STORE_SERVER_THREAD_H_
