// Keeps connections of other hosts away from Gloo's listeners. Gloo takes the
// first connection that arrives, and bytes that are not its peer's end the
// process. A socket filter in the kernel drops the packets of all hosts but the
// peer's, before a connection exists. On one host the listeners are on the
// loopback interface, where only processes of this host arrive.
//
// Threads: the one that builds a communicator.
#ifndef DISTWRAP_BACKENDS_GLOO_STRANGERS_H_
#define DISTWRAP_BACKENDS_GLOO_STRANGERS_H_

#include "address.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace gloo_backend {

// An address of a host: IPv4 addresses have four bytes, then zeros.
struct HostAddress {
  uint8_t bytes_used = 0;
  std::array<uint8_t, 16> bytes = {};
};

// The addresses from which this host may call another, at most kMostAddresses.
std::vector<HostAddress> own_addresses();
inline constexpr size_t kMostAddresses = 24;

// The addresses as a setup message, and back. False for bytes that are none.
std::string encode_addresses(const std::vector<HostAddress>& addresses);
bool decode_addresses(std::string_view bytes,
                      std::vector<HostAddress>* addresses);

// A listener of this process, and the host whose packets it takes.
struct Listener {
  Address address;
  const std::vector<HostAddress>* from;
};
// Filters all listeners; false, with errno, when one was not found or the
// kernel refuses.
bool keep_strangers_out(const std::vector<Listener>& listeners);

}  // namespace gloo_backend

#endif  // DISTWRAP_BACKENDS_GLOO_STRANGERS_H_
