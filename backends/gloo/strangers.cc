#include "strangers.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <dirent.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <linux/filter.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

namespace gloo_backend {
namespace {

constexpr uint8_t kV4 = 4, kV6 = 16;
// Where the sender's address stands in the headers of IPv4 and IPv6.
constexpr uint32_t kSenderV4 = 12, kSenderV6 = 8;
constexpr uint32_t kTake = UINT32_MAX, kDrop = 0;

constexpr uint32_t in_network_header(uint32_t offset) {
  return static_cast<uint32_t>(SKF_NET_OFF) + offset;
}

uint32_t word(const HostAddress& address, size_t at) {
  uint32_t value;
  std::memcpy(&value, address.bytes.data() + at, sizeof value);
  return ntohl(value);
}

// A program for the kernel's classic packet filter: an address that matches in
// all its words leads to the end, which takes the packet.
std::vector<sock_filter> program_for(const std::vector<HostAddress>& from,
                                     uint8_t family_bytes) {
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

bool filter(int descriptor, const std::vector<HostAddress>& from) {
  sockaddr_storage storage = {};
  socklen_t size = sizeof storage;
  if (getsockname(descriptor, reinterpret_cast<sockaddr*>(&storage), &size) !=
      0)
    return false;
  std::vector<sock_filter> program =
      program_for(from, storage.ss_family == AF_INET ? kV4 : kV6);
  const sock_fprog given = {static_cast<uint16_t>(program.size()),
                            program.data()};
  return setsockopt(descriptor, SOL_SOCKET, SO_ATTACH_FILTER, &given,
                    sizeof given) == 0;
}

}  // namespace

std::vector<HostAddress> own_addresses() {
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
      address.bytes_used = kV4;
      std::memcpy(address.bytes.data(), &v4.sin_addr, kV4);
    } else if (one->ifa_addr->sa_family == AF_INET6) {
      sockaddr_in6 v6;
      std::memcpy(&v6, one->ifa_addr, sizeof v6);
      address.bytes_used = kV6;
      std::memcpy(address.bytes.data(), &v6.sin6_addr, kV6);
    } else {
      continue;
    }
    found.push_back(address);
  }
  freeifaddrs(all);
  return found;
}

std::string encode_addresses(const std::vector<HostAddress>& addresses) {
  std::string bytes;
  for (const HostAddress& address : addresses) {
    bytes.push_back(static_cast<char>(address.bytes_used));
    bytes.append(reinterpret_cast<const char*>(address.bytes.data()),
                 address.bytes.size());
  }
  return bytes;
}

bool decode_addresses(std::string_view bytes,
                      std::vector<HostAddress>* addresses) {
  constexpr size_t kEach = 1 + sizeof HostAddress::bytes;
  if (bytes.empty() || bytes.size() % kEach != 0 ||
      bytes.size() / kEach > kMostAddresses)
    return false;
  addresses->clear();
  for (; !bytes.empty(); bytes.remove_prefix(kEach)) {
    HostAddress address;
    address.bytes_used = static_cast<uint8_t>(bytes[0]);
    if (address.bytes_used != kV4 && address.bytes_used != kV6) return false;
    std::memcpy(address.bytes.data(), bytes.data() + 1, kEach - 1);
    addresses->push_back(address);
  }
  return true;
}

bool keep_strangers_out(const std::vector<Listener>& listeners) {
  DIR* const directory = opendir("/proc/self/fd");
  if (directory == nullptr) return false;
  size_t filtered = 0;
  bool refused = false;
  while (const dirent* entry = readdir(directory)) {
    const int number = std::atoi(entry->d_name);
    const Address here = Address::here(number);
    if (here.empty()) continue;
    for (const Listener& listener : listeners) {
      if (!(listener.address == here)) continue;
      // Another thread may close and reuse the number at any moment, so the
      // duplicate is examined.
      const int held = fcntl(number, F_DUPFD_CLOEXEC, 3);
      if (held < 0) break;
      if (Address::here(held) == here && Address::there(held).empty()) {
        if (filter(held, *listener.from))
          ++filtered;
        else
          refused = true;
      }
      ::close(held);
      break;
    }
  }
  closedir(directory);
  if (refused || filtered == listeners.size()) return !refused;
  errno = ENOENT;
  return false;
}

}  // namespace gloo_backend
