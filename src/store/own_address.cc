#include "store/own_address.h"

#include <absl/cleanup/cleanup.h>
#include <absl/strings/strip.h>

#include <array>
#include <cstring>
#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <string>
#include <sys/socket.h>
#include <unistd.h>

namespace distwrap::store {
namespace {

bool is_loopback(const sockaddr& address) {
  if (address.sa_family == AF_INET) {
    sockaddr_in ip;
    std::memcpy(&ip, &address, sizeof ip);
    return ntohl(ip.sin_addr.s_addr) >> 24 == 127;
  }
  if (address.sa_family != AF_INET6) return false;
  sockaddr_in6 ip;
  std::memcpy(&ip, &address, sizeof ip);
  return IN6_IS_ADDR_LOOPBACK(&ip.sin6_addr);
}

bool same_address(const sockaddr& a, const sockaddr& b) {
  if (a.sa_family != b.sa_family) return false;
  if (a.sa_family == AF_INET) {
    sockaddr_in x, y;
    std::memcpy(&x, &a, sizeof x);
    std::memcpy(&y, &b, sizeof y);
    return x.sin_addr.s_addr == y.sin_addr.s_addr;
  }
  if (a.sa_family != AF_INET6) return false;
  sockaddr_in6 x, y;
  std::memcpy(&x, &a, sizeof x);
  std::memcpy(&y, &b, sizeof y);
  return std::memcmp(&x.sin6_addr, &y.sin6_addr, sizeof x.sin6_addr) == 0;
}

bool is_of_interface(const sockaddr& address) {
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return false;
  const absl::Cleanup free_all = [all] { freeifaddrs(all); };
  for (const ifaddrs* one = all; one != nullptr; one = one->ifa_next)
    if (one->ifa_addr != nullptr && same_address(*one->ifa_addr, address))
      return true;
  return false;
}

std::string own_name() {
  std::array<char, 256> name = {};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

}  // namespace

bool is_own_address(absl::string_view host) {
  if (absl::ConsumePrefix(&host, "[")) absl::ConsumeSuffix(&host, "]");
  if (host == "localhost" || host == own_name()) return true;
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(std::string(host).c_str(), nullptr, &hints, &found) != 0)
    return false;
  const absl::Cleanup free_found = [found] { freeaddrinfo(found); };
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next)
    if (is_loopback(*one->ai_addr) || is_of_interface(*one->ai_addr))
      return true;
  return false;
}

}  // namespace distwrap::store
