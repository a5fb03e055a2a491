#include "new_sockets.h"

#include <algorithm>
#include <cstdlib>
#include <dirent.h>
#include <fcntl.h>
#include <memory>
#include <sys/socket.h>

namespace ucx_backend {
namespace {

template <class Visit>
void visit_sockets(const Visit& visit) {
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(opendir("/proc/self/fd"),
                                                   &closedir);
  if (folder == nullptr) return;
  while (const dirent* const entry = readdir(folder.get())) {
    if (entry->d_name[0] == '.') continue;
    const int number = std::atoi(entry->d_name);
    int type = 0;
    socklen_t size = sizeof type;
    if (getsockopt(number, SOL_SOCKET, SO_TYPE, &type, &size) == 0)
      visit(number);
  }
}

}  // namespace

NewSockets::NewSockets() {
  visit_sockets([this](int number) { before_.push_back(number); });
  std::sort(before_.begin(), before_.end());
}

std::vector<int> NewSockets::listeners() const {
  std::vector<int> found;
  visit_sockets([&](int number) {
    int listens = 0;
    int domain = 0;
    socklen_t size = sizeof listens;
    if (!std::binary_search(before_.begin(), before_.end(), number) &&
        getsockopt(number, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) == 0 &&
        listens != 0 &&
        getsockopt(number, SOL_SOCKET, SO_DOMAIN, &domain, &size) == 0 &&
        (domain == AF_INET || domain == AF_INET6))
      found.push_back(number);
  });
  return found;
}

NewSockets::~NewSockets() {
  visit_sockets([this](int number) {
    if (!std::binary_search(before_.begin(), before_.end(), number))
      fcntl(number, F_SETFD, FD_CLOEXEC);
  });
}

}  // namespace ucx_backend
