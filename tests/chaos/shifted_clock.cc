// A library for LD_PRELOAD that moves the wall clock of a try's processes by
// the offset in their ledger. The machine's clock does not change.
//
// Code that computes a point in time from the wall clock and waits for it waits
// an hour too long, or not at all, as when the real clock steps.
#include "chaos/ledger.h"

#include <cstdlib>
#include <dlfcn.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

namespace {

using distwrap::chaos::Ledger;

// Passed as "--ledger FD" and looked up once.
const Ledger* ledger() {
  static const Ledger* const found = []() -> const Ledger* {
    const char* const fd = std::getenv("CHAOS_CLOCK");
    if (fd == nullptr) return nullptr;
    void* const memory =
        mmap(nullptr, sizeof(Ledger), PROT_READ, MAP_SHARED, std::atoi(fd), 0);
    return memory == MAP_FAILED ? nullptr : static_cast<Ledger*>(memory);
  }();
  return found;
}

int64_t step_s() {
  const Ledger* const all = ledger();
  return all == nullptr ? 0 : all->clock_step_s.load();
}

using ClockGettime = int (*)(clockid_t, timespec*);

ClockGettime real() {
  static const auto function =
      reinterpret_cast<ClockGettime>(dlsym(RTLD_NEXT, "clock_gettime"));
  return function;
}

}  // namespace

extern "C" {

__attribute__((visibility("default"))) int clock_gettime(clockid_t clock,
                                                         timespec* at) {
  const int result = real()(clock, at);
  if (result == 0 &&
      (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
    at->tv_sec += step_s();
  return result;
}

__attribute__((visibility("default"))) int gettimeofday(timeval* at,
                                                        void* /*zone*/) {
  timespec now;
  const int result = clock_gettime(CLOCK_REALTIME, &now);
  at->tv_sec = now.tv_sec;
  at->tv_usec = now.tv_nsec / 1000;
  return result;
}

__attribute__((visibility("default"))) time_t time(time_t* at) {
  timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (at != nullptr) *at = now.tv_sec;
  return now.tv_sec;
}
}
