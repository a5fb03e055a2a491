// A lock that costs its user two plain stores as long as he is alone.
//
// Until `share` one thread at a time uses it, which whoever calls sees to: that
// one marks that it is inside, and looks whether it still is alone. `share`
// first says that it is not, then makes every running thread pass a memory
// barrier (membarrier(2)), then waits until the mark has gone. From then on it
// is a mutex, for good. Where there is no such barrier it is one from the
// start.
//
// Threads: any.
#ifndef DISTWRAP_BACKENDS_SHM_LAZY_LOCK_H_
#define DISTWRAP_BACKENDS_SHM_LAZY_LOCK_H_

#include <atomic>
#include <mutex>

namespace shm_backend {

class LazyLock {
 public:
  // From now on others use it, too. Waits for who is inside, which is short;
  // does not come from within.
  void share();
  bool is_shared() const { return shared_.load(std::memory_order_acquire); }

  // Of a scope. Whoever is not that first thread has called `share` before, or
  // has seen `is_shared`.
  class Hold {
   public:
    explicit Hold(LazyLock& lock) : lock_(lock) {
      if (enter()) [[likely]]
        return;
      lock_.mutex_.lock();
      by_ = By::kMutex;
    }
    Hold(LazyLock& lock, std::try_to_lock_t /*tag*/) : lock_(lock) {
      if (enter()) [[likely]]
        return;
      if (lock_.mutex_.try_lock()) by_ = By::kMutex;
    }
    ~Hold() { release(); }
    Hold(const Hold&) = delete;
    Hold& operator=(const Hold&) = delete;

    bool owns() const { return by_ != By::kNothing; }
    void release() {
      if (by_ == By::kMark)
        lock_.inside_.store(false, std::memory_order_release);
      if (by_ == By::kMutex) lock_.mutex_.unlock();
      by_ = By::kNothing;
    }

   private:
    enum class By { kNothing, kMark, kMutex };

    bool enter() {
      // Only the first thread ever sets the mark.
      if (lock_.is_shared()) return false;
      lock_.inside_.store(true, std::memory_order_relaxed);
      // The processor is kept from looking first by the barrier of `share`.
      std::atomic_signal_fence(std::memory_order_seq_cst);
      if (!lock_.is_shared()) {
        by_ = By::kMark;
        return true;
      }
      lock_.inside_.store(false, std::memory_order_release);
      return false;
    }

    LazyLock& lock_;
    By by_ = By::kNothing;
  };

 private:
  static const bool has_barrier_;

  std::atomic<bool> shared_ = !has_barrier_;
  std::atomic<bool> inside_ = false;
  std::mutex mutex_;
};

}  // namespace shm_backend

#endif  // DISTWRAP_BACKENDS_SHM_LAZY_LOCK_H_
