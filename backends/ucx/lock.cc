#include "lock.h"

#include <linux/membarrier.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace ucx_backend {
namespace {

// On a busy machine the other one may not even run.
constexpr int kLooks = 200;
constexpr int kTurns = 50;

long membarrier(int command) { return syscall(SYS_membarrier, command, 0, 0); }

void rest(int looks) {
  if (looks < kLooks)
    pause();
  else
    sched_yield();
}

}  // namespace

const bool Lock::has_barrier_ =
    membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) == 0;

void Lock::claim() {
  claims_.fetch_add(1, std::memory_order_seq_cst);
  if (!shared_.load(std::memory_order_acquire))
    membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED);
}

void Lock::unclaim() { claims_.fetch_sub(1, std::memory_order_release); }

// Who finds it shared finds the barrier passed.
void Lock::claim_for_good() {
  claims_.fetch_add(1, std::memory_order_seq_cst);
  membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED);
  if (shared_.exchange(true, std::memory_order_acq_rel)) unclaim();
}

bool Lock::try_lock() {
  if (inside_.load(std::memory_order_acquire) ||
      taken_.exchange(true, std::memory_order_acquire))
    return false;
  if (!inside_.load(std::memory_order_acquire)) return true;
  unlock();
  return false;
}

void Lock::wait_for_lock() {
  wanted_.fetch_add(1, std::memory_order_relaxed);
  for (int looks = 0;; ++looks) {
    if (!taken_.load(std::memory_order_relaxed) &&
        !taken_.exchange(true, std::memory_order_acquire))
      break;
    rest(looks);
  }
  wanted_.fetch_sub(1, std::memory_order_relaxed);
}

void Lock::wait_for_inside() const {
  for (int looks = 0; inside_.load(std::memory_order_acquire); ++looks)
    rest(looks);
}

void Lock::let_others() const {
  const int before = wanted_.load(std::memory_order_relaxed);
  for (int looks = 0; looks < kLooks + kTurns; ++looks) {
    if (wanted_.load(std::memory_order_relaxed) < before) return;
    rest(looks);
  }
}

}  // namespace ucx_backend
