// Where a process listens in a network: a name or address, and a port.
//
// Threads: any. May ask the resolver about names.
//
//   auto place = HostPort::parse("node0:29500");
//   auto addresses = resolve(*place);
#ifndef DISTWRAP_SRC_STORE_NETWORK_ADDRESS_H_
#define DISTWRAP_SRC_STORE_NETWORK_ADDRESS_H_

#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>

#include <optional>
#include <string>
#include <sys/socket.h>
#include <vector>

namespace distwrap::store {

struct HostPort {
  std::string host = {};  // an IPv6 address without its brackets
  int port = 0;

  // "host:port" or "[address]:port"; nullopt for other texts.
  static std::optional<HostPort> parse(absl::string_view text);
  std::string text() const;
};

class NetworkAddress {
 public:
  // The address of a socket call; nullopt unless it is IPv4 or IPv6.
  static std::optional<NetworkAddress> of(const sockaddr* address);
  // The addresses of the two ends of a connected socket.
  static std::optional<NetworkAddress> here(int fd);
  static std::optional<NetworkAddress> there(int fd);

  const sockaddr* get() const {
    return reinterpret_cast<const sockaddr*>(&storage_);
  }
  socklen_t size() const { return size_; }
  bool is_loopback() const;
  // Whether an interface of this host has the address.
  bool is_own() const;
  bool same_host(const NetworkAddress& other) const;
  // "10.0.0.1" and "10.0.0.1:29500"; of IPv6 "fd00::1" and "[fd00::1]:29500".
  std::string host() const;
  std::string text() const;
  int port() const;

 private:
  sockaddr_storage storage_ = {};
  socklen_t size_ = 0;
};

// The addresses that a name has here, at least one. Errors: kStoreUnreachable
// with the resolver's answer.
absl::StatusOr<std::vector<NetworkAddress>> resolve(const HostPort& place);

// Whether the text itself means this host alone, as "localhost" does. A name
// that only resolves to such an address is likely to be a mistake.
bool says_loopback(absl::string_view host);

}  // namespace distwrap::store

#endif  // DISTWRAP_SRC_STORE_NETWORK_ADDRESS_H_
