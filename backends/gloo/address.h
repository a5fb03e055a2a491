// The address of one end of a connection.
#ifndef DISTWRAP_BACKENDS_GLOO_ADDRESS_H_
#define DISTWRAP_BACKENDS_GLOO_ADDRESS_H_

#include <gloo/transport/address.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <sys/socket.h>
#include <sys/types.h>
#include <vector>

namespace gloo_backend {

class Address {
 public:
  // Gloo's form: a socket address, then a number that is not used here.
  static constexpr size_t kGlooBytes =
      sizeof(sockaddr_storage) + sizeof(ssize_t);

  Address() = default;
  explicit Address(const gloo::transport::Address& address);
  // An address in Gloo's form from another rank; empty unless IPv4 or IPv6.
  Address(const void* bytes, size_t size);
  static Address here(int descriptor);
  static Address there(int descriptor);

  bool empty() const { return host_.empty(); }
  // The form to which Gloo's pairs connect.
  const std::vector<char>& gloo_bytes() const { return gloo_bytes_; }

  // The greater one of two listeners that connect to each other calls. This is
  // Gloo's rule, and it decides whose `connect` waits for the peer.
  bool calls(const Address& other) const;

  bool operator==(const Address& other) const {
    return family_ == other.family_ && host_ == other.host_ &&
           port_ == other.port_;
  }

 private:
  explicit Address(const sockaddr_storage& storage);
  void parse(const sockaddr_storage& storage);

  uint16_t family_ = 0;
  std::string host_;   // in network byte order
  uint16_t port_ = 0;  // in network byte order, as Gloo compares it
  std::vector<char> gloo_bytes_;
};

}  // namespace gloo_backend

#endif  // DISTWRAP_BACKENDS_GLOO_ADDRESS_H_
