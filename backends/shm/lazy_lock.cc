#include "lazy_lock.h"

#include <linux/membarrier.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace shm_backend {
namespace {

long membarrier(int command) { return syscall(SYS_membarrier, command, 0, 0); }

}  // namespace

const bool LazyLock::has_barrier_ =
    membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) == 0;

void LazyLock::share() {
  if (is_shared()) return;
  // Held to the end: who finds it shared waits here until the first thread has
  // left.
  std::lock_guard<std::mutex> lock(mutex_);
  if (is_shared()) return;
  shared_.store(true, std::memory_order_seq_cst);
  membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED);
  while (inside_.load(std::memory_order_acquire)) sched_yield();
}

}  // namespace shm_backend
