#include "sockets.h"

#include "child_sockets.h"

#include <cstdlib>
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace gloo_backend {
namespace {

bool is(const Sockets::Ends& ends, const Address& here, int descriptor) {
  if (!(ends.here == here)) return false;
  const Address there = Address::there(descriptor);
  return !there.empty() && (ends.there.empty() || ends.there == there);
}

}  // namespace

Sockets::~Sockets() {
  for (const Held& held : held_) {
    child_sockets::remove(held.descriptor);
    ::close(held.descriptor);
  }
}

bool Sockets::add(const std::vector<Ends>& connections) {
  DIR* const directory = opendir("/proc/self/fd");
  if (directory == nullptr) return false;
  while (const dirent* entry = readdir(directory)) {
    const int number = std::atoi(entry->d_name);
    const Address here = Address::here(number);
    if (here.empty()) continue;
    for (const Ends& ends : connections) {
      if (!is(ends, here, number) || holds(ends.rank)) continue;
      // Gloo's thread may close this number at any moment, and another thread
      // may open it again, so the duplicate is examined instead.
      const int held = fcntl(number, F_DUPFD_CLOEXEC, 3);
      if (held < 0) continue;
      if (is(ends, Address::here(held), held)) {
        held_.push_back({ends.rank, held});
        child_sockets::add(held);
        // Gloo lets programs that the process starts inherit the descriptor;
        // peers would not see this process's end before the end of those.
        fcntl(number, F_SETFD, FD_CLOEXEC);
      } else {
        ::close(held);
      }
      break;
    }
  }
  closedir(directory);
  return held_.size() == connections.size();
}

bool Sockets::holds(int rank) const {
  for (const Held& held : held_)
    if (held.rank == rank) return true;
  return false;
}

void Sockets::shut() const {
  for (const Held& held : held_) ::shutdown(held.descriptor, SHUT_RDWR);
}

std::vector<int> Sockets::closed() const {
  std::vector<int> ranks;
  for (const Held& held : held_) {
    pollfd at = {held.descriptor, POLLRDHUP, 0};
    if (poll(&at, 1, 0) == 1 &&
        (at.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0)
      ranks.push_back(held.rank);
  }
  return ranks;
}

}  // namespace gloo_backend
