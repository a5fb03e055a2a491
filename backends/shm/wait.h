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

// Processors that the threads of this process may use at once.
int usable_processors();

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
  // How long it takes when nobody is late: not worth a sleep.
  virtual int64_t busy_ns() { return 0; }

 protected:
  ~Condition() = default;
};

// Until it holds; open messages move meanwhile. DW_OK, or why it never will:
// the group was aborted, a peer has gone, the limit passed.
int32_t wait_slow(Comm* comm, Condition& condition, Limit& limit,
                  dw_error* error);

}  // namespace shm_backend

#endif  // DISTWRAP_BACKENDS_SHM_WAIT_H_
