#include "watch.h"

#include "layout.h"

#include <poll.h>

namespace shm_backend {

void Watch::add(Descriptor process, const std::vector<int>& ranks) {
  for (const int rank : ranks) {
    const auto at = static_cast<size_t>(rank);
    if (at >= process_of_.size()) process_of_.resize(at + 1, -1);
    process_of_[at] = static_cast<int>(processes_.size());
  }
  processes_.push_back(std::move(process));
}

int Watch::descriptor_of(int rank) const {
  const auto at = static_cast<size_t>(rank);
  const int process = at < process_of_.size() ? process_of_[at] : -1;
  return process < 0 ? -1 : processes_[static_cast<size_t>(process)].get();
}

bool Watch::has_ended(int rank) const {
  pollfd fd = {descriptor_of(rank), POLLIN, 0};
  return fd.fd >= 0 && poll(&fd, 1, 0) > 0 && (fd.revents & POLLIN) != 0;
}

int Watch::lost(const std::vector<int>& ranks) const {
  pollfd fds[kMostRanks];
  int places[kMostRanks];
  size_t n = 0;
  for (size_t i = 0; i < ranks.size() && n < kMostRanks; ++i) {
    const int descriptor = descriptor_of(ranks[i]);
    if (descriptor < 0) continue;
    places[n] = static_cast<int>(i);
    fds[n++] = {descriptor, POLLIN, 0};
  }
  if (n == 0 || poll(fds, n, 0) <= 0) return -1;
  for (size_t i = 0; i < n; ++i)
    if ((fds[i].revents & POLLIN) != 0) return places[i];
  return -1;
}

}  // namespace shm_backend
