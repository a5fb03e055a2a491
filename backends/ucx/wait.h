// How a thread waits for its transfer: it drives the worker as long as a peer
// that runs may take, then lets others have the processor, then sleeps.
#ifndef DISTWRAP_BACKENDS_UCX_WAIT_H_
#define DISTWRAP_BACKENDS_UCX_WAIT_H_

#include "transfer.h"
#include "worker.h"

namespace ucx_backend {

struct Comm;

// How long to keep the processor, or at least to stay awake, after the last
// that has happened.
inline constexpr int64_t kSpinNs = 2'000;
inline constexpr int64_t kAwakeNs = 60'000;
// Between two looks at the clock.
inline constexpr int kLooksPerTurn = 20;

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

// Until it has ended, in whatever way; `hold` is of that worker. Who comes too
// late breaks what the worker is of.
void wait_for(const Comm* comm, Worker& worker, Worker::Hold& hold,
              Transfer& transfer);

}  // namespace ucx_backend

#endif  // DISTWRAP_BACKENDS_UCX_WAIT_H_
