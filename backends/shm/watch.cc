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

int Watch::lost(const std::vector<int>& ranks) const {
  pollfd fds[kMostRanks];
  int places[kMostRanks];
  size_t n = 0;
  for (size_t i = 0; i < ranks.size() && n < kMostRanks; ++i) {
    const auto rank = static_cast<size_t>(ranks[i]);
    const int process = rank < process_of_.size() ? process_of_[rank] : -1;
    if (process < 0) continue;
    places[n] = static_cast<int>(i);
    fds[n++] = {processes_[static_cast<size_t>(process)].get(), POLLIN, 0};
  }
  if (n == 0 || poll(fds, n, 0) <= 0) return -1;
  for (size_t i = 0; i < n; ++i)
    if ((fds[i].revents & POLLIN) != 0) return places[i];
  return -1;
}

}  // namespace shm_backend
