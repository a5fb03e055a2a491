// How a rank waits for a word of another: it polls as long as a running peer
// may take, then yields the processor, then sleeps.
#ifndef DISTWRAP_BACKENDS_SHM_WAIT_H_
#define DISTWRAP_BACKENDS_SHM_WAIT_H_

#include "hostmem/wait.h"
#include "layout.h"

#include <cstdint>

struct dw_error;

namespace shm_backend {

struct Comm;

using dw_hostmem::Limit;
using dw_hostmem::pause;

// Polls, of 50 ns or less, after which a peer that is not late has come.
inline constexpr int kSoonLooks = 20;

// Keeps later loads behind earlier ones, those of the kernel included.
// (ThreadSanitizer does not know C++ fences.)
inline void order_loads() {
#if defined(__aarch64__)
  asm volatile("dmb ishld" ::: "memory");
#else
  asm volatile("" ::: "memory");  // the processor keeps the order of loads
#endif
}

// A condition that a rank waits for.
class Condition {
 public:
  virtual bool holds() = 0;
  // Whether the condition needs something that `rank` has not done yet.
  virtual bool awaits(int rank) = 0;
  // Whether this wait, or the next one, needs something of `rank`.
  virtual bool will_await(int rank) { return awaits(rank); }
  // How long the condition takes when no rank is late: too short to sleep.
  virtual int64_t busy_ns() { return 0; }

 protected:
  ~Condition() = default;
};

// Writes the error about a rank that has left; a rank in state kOpen has died.
int32_t fail_left(int rank, State state, dw_error* error);

// Waits until the condition holds; open messages move meanwhile. DW_OK, or why
// it never will hold: the group was aborted, a peer has gone, the limit passed.
int32_t wait_slow(Comm* comm, Condition& condition, Limit& limit,
                  dw_error* error);
// DW_OK, or the error for a rank that has died or given up, or that has closed
// the group although the condition awaits it.
int32_t look_for_lost(const Comm* comm, Condition& condition, dw_error* error);

// For ranks that share processors: yields a few times, so that the awaited
// ranks may run. Returns whether the condition holds.
bool wait_in_turns(Comm* comm, Condition& condition);

}  // namespace shm_backend

#endif  // DISTWRAP_BACKENDS_SHM_WAIT_H_
