#include "watch.h"

#include "layout.h"

#include <algorithm>
#include <poll.h>

namespace shm_backend {

void Watch::add(int rank, Descriptor process) {
  processes_.push_back({rank, std::move(process)});
}

int Watch::lost() const {
  pollfd fds[kMostRanks];
  const size_t n = std::min(processes_.size(), size_t{kMostRanks});
  for (size_t i = 0; i < n; ++i) fds[i] = {processes_[i].fd.get(), POLLIN, 0};
  if (n == 0 || poll(fds, n, 0) <= 0) return -1;
  for (size_t i = 0; i < n; ++i)
    if ((fds[i].revents & POLLIN) != 0) return processes_[i].rank;
  return -1;
}

}  // namespace shm_backend
