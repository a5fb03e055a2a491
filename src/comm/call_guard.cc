#include "comm/call_guard.h"

#include "base/mutex.h"

#include <linux/membarrier.h>
#include <memory>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include <vector>

namespace distwrap::comm {
namespace {

long membarrier(int command) { return syscall(__NR_membarrier, command, 0, 0); }

// All slots ever made; those of ended threads are used again.
struct Slots {
  using Slot = std::atomic<const void*>;

  base::Mutex mutex;
  std::vector<std::unique_ptr<Slot>> all ABSL_GUARDED_BY(mutex);
  std::vector<Slot*> free ABSL_GUARDED_BY(mutex);
};

Slots& slots() {
  static Slots* const kSlots = new Slots;  // outlives threads and statics
  return *kSlots;
}

// Hands the slot back when its thread ends.
struct SlotReturn {
  Slots::Slot* slot = nullptr;
  ~SlotReturn() {
    if (slot == nullptr) return;
    base::MutexLock lock(slots().mutex);
    slots().free.push_back(slot);
  }
};

}  // namespace

const bool CallGuard::asymmetric_ =
    membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) == 0;

CallGuard::Slot& CallGuard::make_slot() {
  thread_local SlotReturn at_thread_end;
  base::MutexLock lock(slots().mutex);
  if (slots().free.empty()) {
    slots().all.push_back(std::make_unique<Slot>(nullptr));
    slots().free.push_back(slots().all.back().get());
  }
  at_thread_end.slot = thread_slot_ = slots().free.back();
  slots().free.pop_back();
  return *thread_slot_;
}

bool CallGuard::wait_until_left(const void* object, Deadline deadline) {
  if (asymmetric_) membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED);
  for (;;) {
    bool inside = false;
    {
      base::MutexLock lock(slots().mutex);
      for (const std::unique_ptr<Slot>& slot : slots().all)
        inside |= slot->load(std::memory_order_seq_cst) == object;
    }
    if (!inside) return true;
    if (deadline.passed()) return false;
    // Rare and short: a call of another thread is about to leave.
    const timespec pause{0, 100'000};
    nanosleep(&pause, nullptr);
  }
}

}  // namespace distwrap::comm
