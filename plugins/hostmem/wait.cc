#include "hostmem/wait.h"

#include <climits>

#include <algorithm>
#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

namespace dw_hostmem {
namespace {

// The time between two checks of the peers.
constexpr int64_t kCheckNs = 1'000'000;
// A wake-up that is narrowly missed is made up for after this time.
constexpr int64_t kShortNapNs = 1'000'000;
constexpr int64_t kLongNapNs = 20'000'000;
// The number of polls after announcing a sleep: longer than a processor holds
// back a store.
constexpr int kLastLooks = 200;

}  // namespace

void ring(std::atomic<uint32_t>& bell) {
  bell.fetch_add(1, std::memory_order_seq_cst);
  syscall(SYS_futex, &bell, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

// Sleeps until the bell rings; returns whether the wait ended before that.
bool Wait::nap(const Bed& bed, int64_t most_ns) {
  bed.sleepers.fetch_add(1, std::memory_order_seq_cst);
  const uint32_t bell = bed.bell.load(std::memory_order_seq_cst);
  const bool ended = look(kLastLooks);
  if (!ended && check(nullptr) == DW_OK) {
    before_sleep();
    const timespec span = {static_cast<time_t>(most_ns / 1'000'000'000),
                           static_cast<long>(most_ns % 1'000'000'000)};
    syscall(SYS_futex, &bed.bell, FUTEX_WAIT, bell, &span, nullptr, 0);
  }
  bed.sleepers.fetch_sub(1, std::memory_order_seq_cst);
  return ended;
}

int32_t Wait::run(const Bed& bed, Limit& limit, dw_error* error) {
  const int64_t began = host_.now_ns(host_.self);
  const int64_t end = limit.at(began);
  const int64_t spin_ns = kSpinNs + std::min(busy_ns_, kAwakeNs);
  const int64_t awake_ns = kAwakeNs + busy_ns_;
  int64_t next_check = began + kCheckNs;
  int64_t nap_ns = kShortNapNs;
  for (;;) {
    if (look(looks_)) return DW_OK;
    if (int32_t code = check(error)) return code;
    const int64_t now = host_.now_ns(host_.self);
    if (now >= next_check) {
      next_check = now + kCheckNs;
      if (int32_t code = look_for_lost(error))
        return look(1) ? int32_t{DW_OK} : code;
    }
    if (end != 0 && now >= end)
      return look(1) ? int32_t{DW_OK} : fail_late(error);
    if (now - began < spin_ns && !gives_way()) continue;
    if (now - began < awake_ns && yielding_.pays()) {
      sched_yield();
      yielding_.took(host_.now_ns(host_.self) - now);
      continue;
    }
    if (nap(bed, end == 0 ? nap_ns : std::min(nap_ns, end - now))) return DW_OK;
    nap_ns = std::min(nap_ns * 2, kLongNapNs);
    next_check = std::min(next_check, now + nap_ns);
  }
}

}  // namespace dw_hostmem
