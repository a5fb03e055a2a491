#include "comm/progress_driver.h"

#include <algorithm>
#include <utility>

namespace distwrap::comm {

ProgressDriver::ProgressDriver(std::shared_ptr<Watchdog> watchdog,
                               std::function<int()> work, int fd,
                               std::function<bool()> arm)
    : watchdog_(std::move(watchdog)),
      work_(std::move(work)),
      fd_(fd),
      arm_(std::move(arm)) {}

ProgressDriver::~ProgressDriver() { watchdog_->remove(*this); }

void ProgressDriver::begin() {
  in_flight_.fetch_add(1, std::memory_order_relaxed);
  if (driving_.exchange(true, std::memory_order_acq_rel)) return;
  watchdog_->add(*this, Deadline::after(kFirstNap), fd_);
}

void ProgressDriver::wake() {
  if (driving_.load(std::memory_order_acquire)) watchdog_->hasten(*this);
}

Deadline ProgressDriver::expired() {
  const bool worked = work_() > 0;
  if (in_flight_.load(std::memory_order_acquire) == 0) {
    driving_.store(false, std::memory_order_release);
    // An operation may have begun that found it driving.
    if (in_flight_.load(std::memory_order_acquire) == 0 ||
        driving_.exchange(true, std::memory_order_acq_rel))
      return Deadline::never();
  }
  nap_ = worked ? kFirstNap : std::min(2 * nap_, kLongestNap);
  if (fd_ < 0) return Deadline::after(nap_);
  if (!arm_()) return Deadline::after(absl::ZeroDuration());
  return Deadline::after(kLongestSleep);
}

}  // namespace distwrap::comm
