#include "comm/call_guard.h"

#include "base/mutex.h"

#include <linux/membarrier.h>
#include <memory>
#include <pthread.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include <vector>

namespace distwrap::comm {
namespace {

long membarrier(int command) { return syscall(__NR_membarrier, command, 0, 0); }

// All slots ever made; those of ended threads are used again.
struct Slots {
  using Slot = CallGuard::Slot;

  base::Mutex mutex;
  std::vector<std::unique_ptr<Slot>> all ABSL_GUARDED_BY(mutex);
  std::vector<Slot*> free ABSL_GUARDED_BY(mutex);
};

Slots& slots() {
  static Slots* const kSlots = new Slots;  // outlives threads and statics
  return *kSlots;
}

}  // namespace

// Hands the slot back when its thread ends. A call in what runs after this,
// destructors of other thread-local objects, gets a slot that nobody has.
struct SlotReturn {
  CallGuard::Slot* slot = nullptr;
  ~SlotReturn() {
    CallGuard::thread_slot_ = nullptr;
    if (slot == nullptr) return;
    base::MutexLock lock(slots().mutex);
    slots().free.push_back(slot);
  }

  // In the child of a fork only this thread is left. It, too, gets another
  // slot: nobody there has the seat of anything that was made before.
  static void watch_forks() {
    static const int kWatched =
        pthread_atfork(lock_slots, unlock_slots, forget_slots);
    static_cast<void>(kWatched);
  }
  static void forget_slots() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    for (const auto& slot : slots().all)
      slot->store(0, std::memory_order_relaxed);
    slots().free.clear();
    CallGuard::thread_slot_ = nullptr;
    slots().mutex.unlock();
  }
  static void lock_slots() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    slots().mutex.lock();
  }
  static void unlock_slots() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    slots().mutex.unlock();
  }
};

const bool CallGuard::asymmetric_ =
    membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) == 0;

CallGuard::Slot& CallGuard::make_slot() {
  thread_local SlotReturn at_thread_end;
  SlotReturn::watch_forks();
  base::MutexLock lock(slots().mutex);
  if (slots().free.empty()) {
    slots().all.push_back(std::make_unique<Slot>(0));
    slots().free.push_back(slots().all.back().get());
  }
  at_thread_end.slot = thread_slot_ = slots().free.back();
  slots().free.pop_back();
  return *thread_slot_;
}

void CallGuard::barrier() {
  if (asymmetric_) membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED);
}

bool CallGuard::wait_until_left(const void* object, Deadline deadline) {
  barrier();
  for (;;) {
    bool inside = false;
    {
      base::MutexLock lock(slots().mutex);
      for (const std::unique_ptr<Slot>& slot : slots().all)
        inside |= object_in(slot->load(std::memory_order_seq_cst)) == object;
    }
    if (!inside) return true;
    if (deadline.passed()) return false;
    // Rare and short: a call of another thread is about to leave.
    const timespec pause{0, 100'000};
    nanosleep(&pause, nullptr);
  }
}

}  // namespace distwrap::comm
