#include "store/network_address.h"

#include "base/error.h"

#include <absl/cleanup/cleanup.h>
#include <absl/strings/match.h>
#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/strip.h>

#include <arpa/inet.h>
#include <cstring>
#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>

namespace distwrap::store {
namespace {

sockaddr_in as_v4(const sockaddr_storage& storage) {
  sockaddr_in v4;
  std::memcpy(&v4, &storage, sizeof v4);
  return v4;
}

sockaddr_in6 as_v6(const sockaddr_storage& storage) {
  sockaddr_in6 v6;
  std::memcpy(&v6, &storage, sizeof v6);
  return v6;
}

std::optional<NetworkAddress> end_of(int fd, decltype(getsockname) ask) {
  sockaddr_storage storage = {};
  socklen_t size = sizeof storage;
  auto* const address = reinterpret_cast<sockaddr*>(&storage);
  return ask(fd, address, &size) == 0 ? NetworkAddress::of(address)
                                      : std::nullopt;
}

}  // namespace

std::optional<HostPort> HostPort::parse(absl::string_view text) {
  const size_t colon = text.rfind(':');
  if (colon == absl::string_view::npos || colon == 0) return std::nullopt;
  HostPort place;
  if (!absl::SimpleAtoi(text.substr(colon + 1), &place.port) ||
      place.port < 1 || place.port > 65535)
    return std::nullopt;
  absl::string_view host = text.substr(0, colon);
  if (absl::ConsumePrefix(&host, "[")) {
    if (!absl::ConsumeSuffix(&host, "]")) return std::nullopt;
  } else if (absl::StrContains(host, ':')) {
    return std::nullopt;
  }
  if (host.empty() || host.find_first_of("/ \t\n[]") != host.npos ||
      absl::StrContains(host, '\0'))
    return std::nullopt;
  place.host = std::string(host);
  return place;
}

std::string HostPort::text() const {
  return absl::StrContains(host, ':') ? absl::StrCat("[", host, "]:", port)
                                      : absl::StrCat(host, ":", port);
}

std::optional<NetworkAddress> NetworkAddress::of(const sockaddr* address) {
  NetworkAddress result;
  if (address == nullptr) return std::nullopt;
  if (address->sa_family == AF_INET)
    result.size_ = sizeof(sockaddr_in);
  else if (address->sa_family == AF_INET6)
    result.size_ = sizeof(sockaddr_in6);
  else
    return std::nullopt;
  std::memcpy(&result.storage_, address, result.size_);
  return result;
}

std::optional<NetworkAddress> NetworkAddress::here(int fd) {
  return end_of(fd, getsockname);
}

std::optional<NetworkAddress> NetworkAddress::there(int fd) {
  return end_of(fd, getpeername);
}

bool NetworkAddress::is_loopback() const {
  if (storage_.ss_family == AF_INET)
    return ntohl(as_v4(storage_).sin_addr.s_addr) >> 24 == 127;
  const sockaddr_in6 v6 = as_v6(storage_);
  return IN6_IS_ADDR_LOOPBACK(&v6.sin6_addr);
}

bool NetworkAddress::same_host(const NetworkAddress& other) const {
  if (storage_.ss_family != other.storage_.ss_family) return false;
  if (storage_.ss_family == AF_INET)
    return as_v4(storage_).sin_addr.s_addr ==
           as_v4(other.storage_).sin_addr.s_addr;
  const sockaddr_in6 a = as_v6(storage_), b = as_v6(other.storage_);
  return std::memcmp(&a.sin6_addr, &b.sin6_addr, sizeof a.sin6_addr) == 0;
}

bool NetworkAddress::is_own() const {
  if (is_loopback()) return true;
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return false;
  const absl::Cleanup free_all = [all] { freeifaddrs(all); };
  for (const ifaddrs* one = all; one != nullptr; one = one->ifa_next)
    if (const std::optional<NetworkAddress> own = of(one->ifa_addr);
        own.has_value() && same_host(*own))
      return true;
  return false;
}

std::string NetworkAddress::host() const {
  char text[INET6_ADDRSTRLEN] = {};
  const sockaddr_in v4 = as_v4(storage_);
  const sockaddr_in6 v6 = as_v6(storage_);
  const bool is_v4 = storage_.ss_family == AF_INET;
  const void* const bytes =
      is_v4 ? static_cast<const void*>(&v4.sin_addr) : &v6.sin6_addr;
  return inet_ntop(storage_.ss_family, bytes, text, sizeof text) == nullptr
             ? std::string("?")
             : std::string(text);
}

int NetworkAddress::port() const {
  return ntohs(storage_.ss_family == AF_INET ? as_v4(storage_).sin_port
                                             : as_v6(storage_).sin6_port);
}

std::string NetworkAddress::text() const {
  return HostPort{host(), port()}.text();
}

absl::StatusOr<std::vector<NetworkAddress>> resolve(const HostPort& place) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int code = getaddrinfo(
      place.host.c_str(), absl::StrCat(place.port).c_str(), &hints, &found);
  std::vector<NetworkAddress> addresses;
  if (code == 0) {
    const absl::Cleanup free_found = [found] { freeaddrinfo(found); };
    for (const addrinfo* one = found; one != nullptr; one = one->ai_next)
      if (const auto address = NetworkAddress::of(one->ai_addr))
        addresses.push_back(*address);
  }
  if (!addresses.empty()) return addresses;
  return base::make_error(
      {.reason = Reason::kStoreUnreachable,
       .what = absl::StrCat("the host '", place.host, "' is not known here"),
       .op = "store connect",
       .cause = code == 0 ? "it has no IPv4 or IPv6 address"
                          : std::string(gai_strerror(code)),
       .next_step = "give an address, or a name that every host resolves"});
}

bool says_loopback(absl::string_view host) {
  return host == "localhost" || host == "::1" || absl::StartsWith(host, "127.");
}

}  // namespace distwrap::store
