#include "base/ticks.h"

namespace distwrap::base {
namespace {

int64_t read_ns(clockid_t clock) {
  timespec now;
  clock_gettime(clock, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

}  // namespace

Moment Moment::now() {
  return {base::ticks(), read_ns(CLOCK_MONOTONIC), read_ns(CLOCK_REALTIME)};
}

TickScale::TickScale(const Moment& early, const Moment& late) : late_(late) {
  const auto passed = static_cast<double>(late.ticks - early.ticks);
  const int64_t ns = late.monotonic_ns - early.monotonic_ns;
  ns_per_tick_ = passed > 0 ? static_cast<double>(ns) / passed : 0;
}

int64_t TickScale::unix_ns(uint64_t ticks) const {
  // Signed, because an event may lie after the later moment.
  const auto before = static_cast<int64_t>(late_.ticks - ticks);
  return late_.unix_ns -
         static_cast<int64_t>(static_cast<double>(before) * ns_per_tick_);
}

}  // namespace distwrap::base
