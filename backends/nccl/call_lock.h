// A lock around calls of NCCL. NCCL may never return from one, so a thread that
// waits for the lock gives up at some time, and can then say who has it.
#ifndef DISTWRAP_BACKENDS_NCCL_CALL_LOCK_H_
#define DISTWRAP_BACKENDS_NCCL_CALL_LOCK_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>

namespace nccl_backend {

// Between two questions whether something has happened: at first the processor
// is only yielded, then the thread sleeps, which takes up to 50 us more than it
// asks for.
class Pause {
 public:
  void operator()() {
    if (++times_ <= kYields) return std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::microseconds(5));
  }

 private:
  static constexpr int kYields = 200;
  int times_ = 0;
};

// Threads: any.
class CallLock {
 public:
  bool try_lock() { return mutex_.try_lock(); }
  bool try_lock_for(std::chrono::nanoseconds patience) {
    const auto limit = std::chrono::steady_clock::now() + patience;
    for (Pause pause; !try_lock(); pause())
      if (std::chrono::steady_clock::now() >= limit) return false;
    return true;
  }
  // Without a limit: only for threads that may be left behind.
  void lock() { mutex_.lock(); }
  void unlock() {
    what_.store(nullptr, std::memory_order_relaxed);
    mutex_.unlock();
  }

  // The thread that has the lock says what it does: the name of an operation,
  // which lasts for ever, and its number.
  void say(const char* what, uint64_t seq) {
    seq_.store(seq, std::memory_order_relaxed);
    what_.store(what, std::memory_order_relaxed);
  }
  // "all_reduce #4"
  std::string holder() const {
    const char* const what = what_.load(std::memory_order_relaxed);
    if (what == nullptr) return "another call";
    const uint64_t seq = seq_.load(std::memory_order_relaxed);
    return seq == 0 ? what : what + (" #" + std::to_string(seq));
  }

 private:
  std::mutex mutex_;
  std::atomic<const char*> what_ = nullptr;
  std::atomic<uint64_t> seq_ = 0;
};

}  // namespace nccl_backend

#endif  // DISTWRAP_BACKENDS_NCCL_CALL_LOCK_H_
