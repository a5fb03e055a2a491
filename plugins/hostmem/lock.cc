#include "hostmem/lock.h"

#include "hostmem/wait.h"
#include "sdk/process_barrier.h"

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

namespace dw_hostmem {
namespace {

// How often a waiting thread polls the lock before it yields, and how often it
// yields before it sleeps: on a busy machine the thread that holds the lock may
// not even be running.
constexpr int kPolls = 200;
constexpr int kYields = 50;
// A wake-up that is narrowly missed is made up for after this time.
constexpr timespec kNap = {0, 1'000'000};

void rest(int polls) {
  if (polls < kPolls)
    pause();
  else
    sched_yield();
}

}  // namespace

const bool Lock::has_barrier_ = dw_sdk::has_process_barrier();

void Lock::claim() {
  claims_.fetch_add(1, std::memory_order_seq_cst);
  if (!is_shared()) dw_sdk::process_barrier();
}

void Lock::unclaim() { claims_.fetch_sub(1, std::memory_order_release); }

// A thread that finds `shared_` set knows that the barrier has been executed.
void Lock::claim_for_good() {
  claims_.fetch_add(1, std::memory_order_seq_cst);
  dw_sdk::process_barrier();
  if (shared_.exchange(true, std::memory_order_acq_rel)) unclaim();
}

bool Lock::take() {
  return taken_.load(std::memory_order_relaxed) == 0 &&
         taken_.exchange(1, std::memory_order_acquire) == 0;
}

bool Lock::try_lock() {
  if (inside_.load(std::memory_order_acquire) || !take()) return false;
  if (!inside_.load(std::memory_order_acquire)) return true;
  unlock();
  return false;
}

void Lock::wait_for_lock() {
  wanted_.fetch_add(1, std::memory_order_relaxed);
  for (int polls = 0; !take(); ++polls) {
    if (polls < kPolls + kYields)
      rest(polls);
    else
      sleep();
  }
  wanted_.fetch_sub(1, std::memory_order_relaxed);
}

// A thread that unlocks looks for sleepers first. So this one polls on after it
// has announced its sleep, for longer than an `unlock` takes.
void Lock::sleep() {
  sleepers_.fetch_add(1, std::memory_order_seq_cst);
  int polls = 0;
  for (; polls < kPolls && taken_.load(std::memory_order_relaxed) != 0; ++polls)
    pause();
  if (polls == kPolls)
    syscall(SYS_futex, &taken_, FUTEX_WAIT_PRIVATE, 1, &kNap, nullptr, 0);
  sleepers_.fetch_sub(1, std::memory_order_relaxed);
}

void Lock::wake(std::atomic<uint32_t>* taken) {
  syscall(SYS_futex, taken, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
}

void Lock::wait_for_inside() const {
  for (int polls = 0; inside_.load(std::memory_order_acquire); ++polls)
    rest(polls);
}

void Lock::let_others() const {
  const int before = wanted_.load(std::memory_order_relaxed);
  for (int polls = 0; polls < kPolls + kYields; ++polls) {
    if (wanted_.load(std::memory_order_relaxed) < before) return;
    rest(polls);
  }
}

}  // namespace dw_hostmem
