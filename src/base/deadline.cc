#include "distwrap/deadline.h"

#include <algorithm>
#include <limits>
#include <time.h>

namespace distwrap {

int64_t Deadline::now_ns() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

Deadline Deadline::after(absl::Duration timeout) {
  if (timeout == absl::InfiniteDuration()) return never();
  const int64_t now = now_ns();
  const int64_t span = absl::ToInt64Nanoseconds(timeout);  // saturates
  if (span >= kNever - now) return never();
  return Deadline(now + std::max<int64_t>(span, -now));
}

absl::Duration Deadline::remaining() const {
  if (is_never()) return absl::InfiniteDuration();
  return absl::Nanoseconds(std::max<int64_t>(0, ns_ - now_ns()));
}

int Deadline::remaining_ms() const {
  if (is_never()) return -1;
  const int64_t left = std::max<int64_t>(0, ns_ - now_ns());
  const int64_t ms = left / 1'000'000 + (left % 1'000'000 != 0 ? 1 : 0);
  return static_cast<int>(
      std::min<int64_t>(ms, std::numeric_limits<int>::max()));
}

}  // namespace distwrap
