// How a rank waits for a word of another: it spins as long as a peer that runs
// may take, then lets others have the processor, then sleeps.
#ifndef DISTWRAP_BACKENDS_SHM_WAIT_H_
#define DISTWRAP_BACKENDS_SHM_WAIT_H_

#include "layout.h"

#include <atomic>
#include <cstdint>

struct dw_error;

namespace shm_backend {

struct Comm;

inline void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// A peer that is not late has come after so many looks, of 50 ns or less.
inline constexpr int kSoonLooks = 20;
// Tells the host that it has not (DW_BACKEND_CLOCKS_WAITS).
void say_waits(const Comm& comm);

// Loads that follow are not done before those that precede, be those the
// kernel's. (A fence of C++ is one that ThreadSanitizer does not know.)
inline void order_loads() {
#if defined(__aarch64__)
  asm volatile("dmb ishld" ::: "memory");
#else
  asm volatile("" ::: "memory");  // the processor keeps the order of loads
#endif
}

// When an operation has to end; the clock is read when it first matters.
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

// What somebody waits for.
class Condition {
 public:
  virtual bool holds() = 0;
  // Whether it needs something that this rank has not done yet.
  virtual bool awaits(int rank) = 0;
  // Likewise, now or next.
  virtual bool will_await(int rank) { return awaits(rank); }
  // How long it takes when nobody is late: not worth a sleep.
  virtual int64_t busy_ns() { return 0; }

 protected:
  ~Condition() = default;
};

// Where threads of a rank sleep: how many do, and what wakes them.
struct Bed {
  std::atomic<uint32_t>& sleepers;
  std::atomic<uint32_t>& bell;
};

// Of a rank that takes no part any more; one that is open has died.
int32_t fail_left(int rank, State state, dw_error* error);

// Until it holds; open messages move meanwhile. DW_OK, or why it never will:
// the group was aborted, a peer has gone, the limit passed.
int32_t wait_slow(Comm* comm, Condition& condition, Limit& limit,
                  dw_error* error);
// The same in a bed of one's own, and messages are left alone: from any thread.
int32_t wait_apart(Comm* comm, Condition& condition, Limit& limit,
                   const Bed& bed, dw_error* error);

// Where ranks share processors: for a few turns, in which those that are
// awaited may have this one. Whether it holds.
bool wait_in_turns(Comm* comm, Condition& condition);

// Whoever sleeps there looks again.
void ring(std::atomic<uint32_t>& bell);

}  // namespace shm_backend

#endif  // DISTWRAP_BACKENDS_SHM_WAIT_H_
