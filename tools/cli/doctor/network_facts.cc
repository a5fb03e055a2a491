#include "doctor/network_facts.h"

#include "base/error.h"

#include <algorithm>
#include <errno.h>
#include <ifaddrs.h>
#include <memory>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <unistd.h>

namespace distwrap::cli {
namespace {

// "127.0.0.1", "::1"; empty for addresses of other families.
std::string text_of(const sockaddr* address) {
  if (address == nullptr) return {};
  const bool v4 = address->sa_family == AF_INET;
  if (!v4 && address->sa_family != AF_INET6) return {};
  char text[NI_MAXHOST];
  const socklen_t size = v4 ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
  return getnameinfo(address, size, text, sizeof text, nullptr, 0,
                     NI_NUMERICHOST) == 0
             ? text
             : "";
}

std::vector<InterfaceFacts> interfaces() {
  std::vector<InterfaceFacts> all;
  ifaddrs* first = nullptr;
  if (getifaddrs(&first) != 0) return all;
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> list(first, &freeifaddrs);
  for (const ifaddrs* entry = first; entry != nullptr;
       entry = entry->ifa_next) {
    auto found =
        std::find_if(all.begin(), all.end(), [&](const InterfaceFacts& facts) {
          return facts.name == entry->ifa_name;
        });
    if (found == all.end()) {
      all.push_back({entry->ifa_name, (entry->ifa_flags & IFF_UP) != 0,
                     (entry->ifa_flags & IFF_LOOPBACK) != 0});
      found = all.end() - 1;
    }
    if (std::string address = text_of(entry->ifa_addr); !address.empty())
      found->addresses.push_back(std::move(address));
  }
  return all;
}

}  // namespace

NetworkFacts network_facts() {
  NetworkFacts facts;
  char name[256] = "";
  if (gethostname(name, sizeof name - 1) != 0) {
    facts.host_error = base::errno_text(errno);
  } else {
    facts.host = name;
    addrinfo hints = {};
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* first = nullptr;
    const int code = getaddrinfo(name, nullptr, &hints, &first);
    if (code != 0) facts.host_error = gai_strerror(code);
    for (const addrinfo* entry = first; entry != nullptr;
         entry = entry->ai_next)
      facts.host_addresses.push_back(text_of(entry->ai_addr));
    if (first != nullptr) freeaddrinfo(first);
  }
  facts.interfaces = interfaces();
  return facts;
}

}  // namespace distwrap::cli
