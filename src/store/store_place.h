// Where a store is served, and how a process reaches it: a Unix socket on this
// host, or an address that asks for the job's key.
//
// Threads: a value.
//
//   auto place = StorePlace::parse("tls://node0:29500");
//   auto stream = place->dial({.deadline = deadline}, &hopeless);
#ifndef DISTWRAP_SRC_STORE_STORE_PLACE_H_
#define DISTWRAP_SRC_STORE_STORE_PLACE_H_

#include "store/byte_stream.h"
#include "store/network_address.h"
#include "store/socket.h"
#include "store/tls_channel.h"

#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>

#include <memory>
#include <string>
#include <vector>

namespace distwrap::store {

class HostAgent;

// "host:port" and "host:port,port": one place for each port. Empty for other
// texts.
std::vector<HostPort> parse_places(absl::string_view text);

// The name under which clients of a job ask for its key.
std::string job_identity(absl::string_view job);

class StorePlace {
 public:
  // "unix:/absolute/path" or "tls://host:port", perhaps with further ports
  // after commas. `job`: the public name of the
  // job, which only an address between hosts needs. Errors: kInvalidArgument;
  // kAuthFailed without a usable DISTWRAP_JOB_KEY.
  static absl::StatusOr<StorePlace> parse(absl::string_view address,
                                          absl::string_view job = {});

  // Connects. Between hosts it tries each address of the name, until the
  // deadline if it is to wait for the server. Sets `*hopeless` when another
  // attempt would end in the same way. Errors: kStoreUnreachable with address,
  // attempts and errno; kAuthFailed; kResourceLimit.
  absl::StatusOr<std::unique_ptr<ByteStream>> dial(
      const Socket::ConnectOptions& options, bool* hopeless) const;

  // As `dial` between hosts, without an agent: the address that answered.
  absl::StatusOr<NetworkAddress> find(const Socket::ConnectOptions& options,
                                      bool* hopeless) const;
  // From now on `dial` goes through the agent of this host. [is_remote]
  void go_through(std::shared_ptr<HostAgent> agent);

  // "unix:/path" or "tls://host:port".
  const std::string& address() const { return address_; }
  bool is_remote() const { return !network_.empty(); }
  const std::vector<HostPort>& network() const { return network_; }
  const TlsPsk& psk() const { return psk_; }

 private:
  absl::StatusOr<std::unique_ptr<ByteStream>> dial_network(
      const Socket::ConnectOptions& options, bool* hopeless,
      NetworkAddress* found) const;
  std::unique_ptr<ByteStream> try_all(
      const std::vector<NetworkAddress>& addresses, Deadline deadline,
      absl::Status* why, bool* hopeless, NetworkAddress* found) const;

  std::string address_, job_;
  std::string path_;               // a Unix socket's
  std::vector<HostPort> network_;  // one of these serves the store
  TlsPsk psk_;
  std::shared_ptr<HostAgent> agent_;
};

}  // namespace distwrap::store

#endif  // DISTWRAP_SRC_STORE_STORE_PLACE_H_
