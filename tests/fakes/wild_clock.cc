// A wall clock that steps by up to an hour, forwards and backwards, at every
// reading. Linked into a test, it is the clock of all code in the process.
// CLOCK_MONOTONIC is not changed.
#include <atomic>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

namespace {

time_t step() {
  static std::atomic<unsigned> reading{0};
  constexpr time_t kSteps[] = {0, 3600, -3600, 1800, -7};
  return kSteps[reading.fetch_add(1, std::memory_order_relaxed) % 5];
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int clock_gettime(
    clockid_t clock, timespec* now) noexcept {
  const auto got = static_cast<int>(syscall(SYS_clock_gettime, clock, now));
  if (got == 0 && clock == CLOCK_REALTIME) now->tv_sec += step();
  return got;
}

extern "C" __attribute__((visibility("default"))) int gettimeofday(
    timeval* now, void*) noexcept {
  timespec spec = {};
  clock_gettime(CLOCK_REALTIME, &spec);
  now->tv_sec = spec.tv_sec;
  now->tv_usec = spec.tv_nsec / 1000;
  return 0;
}
