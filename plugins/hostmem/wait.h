// How a thread waits for a word that another thread or process writes: it polls
// for as long as a running peer may need, then yields the processor, then
// sleeps on a futex, which the writer rings if it sees a sleeper.
//
// A writer does not fence between its data and its look at `sleepers`. A thread
// announces its sleep and polls on for longer than a processor holds back a
// store; a wake-up that is missed nevertheless costs one short sleep.
//
// Threads: `ring` and `wake` from any; each Limit and Wait belongs to one.
// Ownership: a Bed refers to words in memory that outlives it.
// Errors: those that the Wait of the backend makes.
#ifndef DISTWRAP_PLUGINS_HOSTMEM_WAIT_H_
#define DISTWRAP_PLUGINS_HOSTMEM_WAIT_H_

#include "distwrap/abi/plugin.h"
#include "sdk/yielding.h"

#include <atomic>
#include <cstdint>

namespace dw_hostmem {

// How long to keep the processor, and how long to stay awake.
inline constexpr int64_t kSpinNs = 2'000;
inline constexpr int64_t kAwakeNs = 60'000;
// The number of polls between two readings of the clock, at most.
inline constexpr int kLooksPerTurn = 20;

inline void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// The deadline of an operation; the clock is read when it first matters.
class Limit {
 public:
  Limit(int64_t deadline_ns, int64_t timeout_ns)
      : at_ns_(deadline_ns), timeout_ns_(timeout_ns) {}
  // 0: never.
  int64_t at(int64_t now_ns) {
    if (at_ns_ == 0 && timeout_ns_ != 0 &&
        __builtin_add_overflow(now_ns, timeout_ns_, &at_ns_))
      at_ns_ = INT64_MAX;
    return at_ns_;
  }

 private:
  int64_t at_ns_, timeout_ns_;
};

// Where threads sleep: their number, and the futex that wakes them.
struct Bed {
  std::atomic<uint32_t>& sleepers;
  std::atomic<uint32_t>& bell;
};

// Wakes all threads that sleep there.
void ring(std::atomic<uint32_t>& bell);
// Wakes them, if there are any, after a store that ends their wait.
inline void wake(const Bed& bed) {
  if (bed.sleepers.load(std::memory_order_relaxed) != 0) [[unlikely]]
    ring(bed.bell);
}

// A thread's wait: what ends it, and why it may never end.
class Wait {
 public:
  // DW_OK when `look` has returned true, or the error of one of the checks.
  int32_t run(const Bed& bed, Limit& limit, dw_error* error);

 protected:
  // `looks`: polls in a turn, kLooksPerTurn at most. `busy_ns`: how long the
  // wait takes when no rank is late, in which a sleep does not pay.
  Wait(const dw_host_api* host, dw_sdk::Yielding* yielding, int looks,
       int64_t busy_ns = 0)
      : host_(*host), yielding_(*yielding), looks_(looks), busy_ns_(busy_ns) {}
  ~Wait() = default;

  // Polls so many times; returns whether the wait has ended.
  virtual bool look(int times) = 0;
  // DW_OK, or the failure that ends every operation. Called in each turn.
  virtual int32_t check(dw_error* error) = 0;
  // DW_OK, or the error for a peer that will not come any more. Called every
  // millisecond, and after a sleep of that length.
  virtual int32_t look_for_lost(dw_error* error) = 0;
  // Makes the error for a deadline that has passed.
  virtual int32_t fail_late(dw_error* error) = 0;
  // Whether the processor may be needed by a peer that is waited for.
  virtual bool gives_way() = 0;
  // The thread sleeps next, and does not drive anything meanwhile.
  virtual void before_sleep() {}

 private:
  bool nap(const Bed& bed, int64_t most_ns);

  const dw_host_api& host_;
  dw_sdk::Yielding& yielding_;
  const int looks_;
  const int64_t busy_ns_;
};

}  // namespace dw_hostmem

#endif  // DISTWRAP_PLUGINS_HOSTMEM_WAIT_H_
