#include "distances.h"

#include <algorithm>
#include <utility>

namespace shm_backend {

void Distances::attach(const dw_host_api& host, int rank, Pulses pulses,
                       std::atomic<uint32_t>* told) {
  host_ = &host;
  own_rank_ = rank;
  pulses_ = std::move(pulses);
  ranks_.assign(pulses_.size(), Rank());
  turn_ = next(rank);
  told_ = told;
  // Another group may have used the area.
  if (told_ != nullptr) told_->store(0, std::memory_order_relaxed);
}

int Distances::next(int rank) const {
  const auto size = static_cast<int>(pulses_.size());
  const int after = (rank + 1) % size;
  return after == own_rank_ ? (after + 1) % size : after;
}

// Times one load of the rank's word, less the time of reading the clock.
void Distances::measure(int rank) {
  Rank& one = ranks_[static_cast<size_t>(rank)];
  const std::atomic<uint64_t>& pulse = *pulses_[static_cast<size_t>(rank)];
  const int64_t before = host_->now_ns(host_->self);
  const uint64_t now = pulse.load(std::memory_order_acquire);
  const int64_t after = host_->now_ns(host_->self);
  const int64_t clock = host_->now_ns(host_->self) - after;
  left_ = 1;
  // A word that was not written since may be in this processor's own cache.
  const uint64_t seen = std::exchange(one.seen, now);
  if (seen != now && seen != 0) {
    ++one.samples;
    if (after - before - clock >= kFarNs) ++one.slow;
  }
  if (one.samples == kSamples)
    conclude(one);
  else if (++looks_ == kMostLooks)
    rest();
}

void Distances::conclude(Rank& rank) {
  const bool is_far = rank.slow > kSamples / 2;
  rank.samples = rank.slow = 0;
  if (is_far != rank.is_far) {
    rank.is_far = is_far;
    const auto far = std::count_if(ranks_.begin(), ranks_.end(),
                                   [](const Rank& one) { return one.is_far; });
    most_are_far_ = 2 * far > static_cast<long>(ranks_.size()) - 1;
    if (told_ != nullptr)
      told_->store(most_are_far_ ? 1 : 0, std::memory_order_relaxed);
    rest_ = kFirstRest;
  }
  rest();
}

void Distances::rest() {
  turn_ = next(turn_);
  looks_ = 0;
  left_ = rest_;
  rest_ = std::min(2 * rest_, kMostRest);
}

}  // namespace shm_backend
