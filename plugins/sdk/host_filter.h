// A socket filter in the kernel that lets a listener take the packets of some
// hosts only, for engines that open listeners of their own: others are dropped
// before a connection exists.
//
// Threads: any.
//
//   send(dw_sdk::encode_addresses(dw_sdk::own_addresses()));
//   ... hear those of the other hosts ...
//   if (!dw_sdk::take_from(listener, addresses)) ...
#ifndef DISTWRAP_PLUGINS_SDK_HOST_FILTER_H_
#define DISTWRAP_PLUGINS_SDK_HOST_FILTER_H_

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <ifaddrs.h>
#include <linux/filter.h>
#include <net/if.h>
#include <netinet/in.h>
#include <string>
#include <string_view>
#include <sys/socket.h>
#include <vector>

namespace dw_sdk {

// An address of a host: IPv4 addresses have four bytes, then zeros.
struct HostAddress {
  uint8_t bytes_used = 0;
  std::array<uint8_t, 16> bytes = {};
};
inline constexpr size_t kMostAddresses = 24;

namespace host_filter {

inline constexpr uint8_t kV4 = 4, kV6 = 16;
// Where the sender's address stands in the headers of IPv4 and IPv6.
inline constexpr uint32_t kSenderV4 = 12, kSenderV6 = 8;
inline constexpr uint32_t kTake = UINT32_MAX, kDrop = 0;

constexpr uint32_t in_network_header(uint32_t offset) {
  return static_cast<uint32_t>(SKF_NET_OFF) + offset;
}

inline uint32_t word(const HostAddress& address, size_t at) {
  uint32_t value;
  std::memcpy(&value, address.bytes.data() + at, sizeof value);
  return ntohl(value);
}

// A program for the kernel's classic packet filter: an address that matches in
// all its words leads to the end, which takes the packet.
inline std::vector<sock_filter> program_for(
    const std::vector<HostAddress>& from, uint8_t family_bytes) {
  const uint32_t sender = family_bytes == kV4 ? kSenderV4 : kSenderV6;
  std::vector<sock_filter> program;
  for (const HostAddress& address : from) {
    if (address.bytes_used != family_bytes) continue;
    const size_t words = family_bytes / 4;
    for (size_t i = 0; i < words; ++i) {
      program.push_back(
          BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
                   in_network_header(sender + static_cast<uint32_t>(4 * i))));
      // On a difference it skips the rest of this address.
      const auto rest = static_cast<uint8_t>(2 * (words - 1 - i) + 1);
      program.push_back(
          BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, word(address, 4 * i), 0, rest));
    }
    program.push_back(BPF_STMT(BPF_RET | BPF_K, kTake));
  }
  program.push_back(BPF_STMT(BPF_RET | BPF_K, kDrop));
  return program;
}

}  // namespace host_filter

// Attaches the filter; false, with errno, when the kernel refuses, also because
// there are more addresses than its filters hold.
inline bool take_from(int descriptor, const std::vector<HostAddress>& from) {
  sockaddr_storage storage = {};
  socklen_t size = sizeof storage;
  if (getsockname(descriptor, reinterpret_cast<sockaddr*>(&storage), &size) !=
      0)
    return false;
  std::vector<sock_filter> program = host_filter::program_for(
      from, storage.ss_family == AF_INET ? host_filter::kV4 : host_filter::kV6);
  if (program.size() > BPF_MAXINSNS) {
    errno = E2BIG;
    return false;
  }
  const sock_fprog given = {static_cast<uint16_t>(program.size()),
                            program.data()};
  return setsockopt(descriptor, SOL_SOCKET, SO_ATTACH_FILTER, &given,
                    sizeof given) == 0;
}

// The addresses from which this host may call another, at most kMostAddresses.
inline std::vector<HostAddress> own_addresses() {
  std::vector<HostAddress> found;
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return found;
  for (const ifaddrs* one = all; one != nullptr; one = one->ifa_next) {
    if (one->ifa_addr == nullptr || (one->ifa_flags & IFF_UP) == 0 ||
        found.size() == kMostAddresses)
      continue;
    HostAddress address;
    if (one->ifa_addr->sa_family == AF_INET) {
      sockaddr_in v4;
      std::memcpy(&v4, one->ifa_addr, sizeof v4);
      address.bytes_used = host_filter::kV4;
      std::memcpy(address.bytes.data(), &v4.sin_addr, host_filter::kV4);
    } else if (one->ifa_addr->sa_family == AF_INET6) {
      sockaddr_in6 v6;
      std::memcpy(&v6, one->ifa_addr, sizeof v6);
      address.bytes_used = host_filter::kV6;
      std::memcpy(address.bytes.data(), &v6.sin6_addr, host_filter::kV6);
    } else {
      continue;
    }
    found.push_back(address);
  }
  freeifaddrs(all);
  return found;
}

// The addresses as a setup message, and back. False for bytes that are none.
inline std::string encode_addresses(const std::vector<HostAddress>& addresses) {
  std::string bytes;
  for (const HostAddress& address : addresses) {
    bytes.push_back(static_cast<char>(address.bytes_used));
    bytes.append(reinterpret_cast<const char*>(address.bytes.data()),
                 address.bytes.size());
  }
  return bytes;
}

inline bool decode_addresses(std::string_view bytes,
                             std::vector<HostAddress>* addresses) {
  constexpr size_t kEach = 1 + sizeof HostAddress::bytes;
  if (bytes.empty() || bytes.size() % kEach != 0 ||
      bytes.size() / kEach > kMostAddresses)
    return false;
  addresses->clear();
  for (; !bytes.empty(); bytes.remove_prefix(kEach)) {
    HostAddress address;
    address.bytes_used = static_cast<uint8_t>(bytes[0]);
    if (address.bytes_used != host_filter::kV4 &&
        address.bytes_used != host_filter::kV6)
      return false;
    std::memcpy(address.bytes.data(), bytes.data() + 1, kEach - 1);
    addresses->push_back(address);
  }
  return true;
}

}  // namespace dw_sdk

#endif  // DISTWRAP_PLUGINS_SDK_HOST_FILTER_H_
