// The memory that a backend has allocated, found by address.
//
// Threads: any.
#ifndef DISTWRAP_SRC_COMM_ALLOCATIONS_H_
#define DISTWRAP_SRC_COMM_ALLOCATIONS_H_

#include "base/mutex.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>

namespace distwrap::comm {

class Allocations {
 public:
  void add(const void* data, int64_t bytes) {
    base::MutexLock lock(mutex_);
    blocks_[static_cast<const char*>(data)] = bytes;
    any_.store(true, std::memory_order_release);
  }
  void remove(const void* data) {
    base::MutexLock lock(mutex_);
    blocks_.erase(static_cast<const char*>(data));
    any_.store(!blocks_.empty(), std::memory_order_release);
  }
  bool any() const { return any_.load(std::memory_order_acquire); }
  // Whether `at` lies in one.
  bool have(const void* at) const {
    base::MutexLock lock(mutex_);
    auto next = blocks_.upper_bound(static_cast<const char*>(at));
    if (next == blocks_.begin()) return false;
    --next;
    return static_cast<const char*>(at) - next->first < next->second;
  }

 private:
  std::atomic<bool> any_{false};
  mutable base::Mutex mutex_;
  std::map<const char*, int64_t> blocks_ ABSL_GUARDED_BY(mutex_);  // bytes
};

}  // namespace distwrap::comm

#endif  // DISTWRAP_SRC_COMM_ALLOCATIONS_H_
