#include "interface.h"

#include <arpa/inet.h>
#include <cstring>
#include <dirent.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <sys/socket.h>

namespace ucx_backend {
namespace {

bool has_rdma() {
  DIR* const folder = opendir("/sys/class/infiniband");
  if (folder == nullptr) return false;
  bool found = false;
  while (const dirent* entry = readdir(folder))
    found = found || entry->d_name[0] != '.';
  closedir(folder);
  return found;
}

std::string text_of(const sockaddr& address) {
  char text[INET6_ADDRSTRLEN] = {};
  if (address.sa_family == AF_INET) {
    sockaddr_in v4;
    std::memcpy(&v4, &address, sizeof v4);
    inet_ntop(AF_INET, &v4.sin_addr, text, sizeof text);
  } else if (address.sa_family == AF_INET6) {
    sockaddr_in6 v6;
    std::memcpy(&v6, &address, sizeof v6);
    inet_ntop(AF_INET6, &v6.sin6_addr, text, sizeof text);
  }
  return text;
}

}  // namespace

std::string interface_with(const std::string& address) {
  ifaddrs* all = nullptr;
  if (address.empty() || has_rdma() || getifaddrs(&all) != 0) return "";
  std::string name;
  for (const ifaddrs* one = all; one != nullptr; one = one->ifa_next)
    if (one->ifa_addr != nullptr && text_of(*one->ifa_addr) == address)
      name = one->ifa_name;
  freeifaddrs(all);
  return name;
}

}  // namespace ucx_backend
