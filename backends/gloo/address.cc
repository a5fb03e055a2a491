#include "address.h"

#include <cstring>
#include <netinet/in.h>

namespace gloo_backend {

Address::Address(const gloo::transport::Address& address) {
  const std::vector<char> bytes = address.bytes();
  *this = Address(bytes.data(), bytes.size());
}

Address::Address(const void* bytes, size_t size) {
  if (size != kGlooBytes) return;
  sockaddr_storage storage;
  std::memcpy(&storage, bytes, sizeof storage);
  parse(storage);
  if (empty()) return;
  const char* const begin = static_cast<const char*>(bytes);
  gloo_bytes_.assign(begin, begin + size);
}

Address::Address(const sockaddr_storage& storage) { parse(storage); }

void Address::parse(const sockaddr_storage& storage) {
  if (storage.ss_family == AF_INET) {
    sockaddr_in v4;
    std::memcpy(&v4, &storage, sizeof v4);
    host_.assign(reinterpret_cast<const char*>(&v4.sin_addr),
                 sizeof v4.sin_addr);
    port_ = v4.sin_port;
  } else if (storage.ss_family == AF_INET6) {
    sockaddr_in6 v6;
    std::memcpy(&v6, &storage, sizeof v6);
    host_.assign(reinterpret_cast<const char*>(&v6.sin6_addr),
                 sizeof v6.sin6_addr);
    port_ = v6.sin6_port;
  } else {
    return;
  }
  family_ = storage.ss_family;
}

Address Address::here(int descriptor) {
  sockaddr_storage storage = {};
  socklen_t size = sizeof storage;
  if (getsockname(descriptor, reinterpret_cast<sockaddr*>(&storage), &size) !=
      0)
    return Address();
  return Address(storage);
}

Address Address::there(int descriptor) {
  sockaddr_storage storage = {};
  socklen_t size = sizeof storage;
  if (getpeername(descriptor, reinterpret_cast<sockaddr*>(&storage), &size) !=
      0)
    return Address();
  return Address(storage);
}

bool Address::calls(const Address& other) const {
  const int hosts = host_.compare(other.host_);
  return hosts != 0 ? hosts > 0 : port_ > other.port_;
}

}  // namespace gloo_backend
