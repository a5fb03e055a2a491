// A biased lock: it costs the thread that uses it alone two plain stores and a
// load, and it is a plain lock once other threads come.
//
// The usual thread marks itself as inside and checks for claims. A thread that
// claims the lock makes every running thread execute a memory barrier
// (membarrier(2)) before it checks whether a thread is inside. A lasting claim
// does that once, and from then on this is a plain lock: a waiting thread
// polls, yields, and then sleeps on a futex. Where membarrier does not exist,
// it is a plain lock from the start.
//
// Threads: `enter` and `leave` from one thread at a time, for which its users
// care; everything else from any thread. Ownership: the object that it guards.
// Errors: none.
#ifndef DISTWRAP_PLUGINS_HOSTMEM_LOCK_H_
#define DISTWRAP_PLUGINS_HOSTMEM_LOCK_H_

#include <atomic>
#include <cstdint>
#include <mutex>

namespace dw_hostmem {

class Lock {
 public:
  // ---- the usual thread, as long as there is no claim ----
  bool enter() {
    inside_.store(true, std::memory_order_relaxed);
    // The claimant's barrier keeps the processor from reordering this store and
    // the load below.
    std::atomic_signal_fence(std::memory_order_seq_cst);
    if (claims_.load(std::memory_order_acquire) == 0) [[likely]]
      return true;
    leave();
    return false;
  }
  void leave() { inside_.store(false, std::memory_order_release); }

  // ---- any thread ----
  // Makes a lasting claim; further ones cost nothing.
  void share() {
    if (!is_shared()) claim_for_good();
  }
  // Whether there is a lasting claim.
  bool is_shared() const { return shared_.load(std::memory_order_acquire); }
  // Makes a claim for one use of the lock, unless there is a lasting one.
  void claim();
  void unclaim();
  // Precondition: there is a claim, which this thread has made, or has seen as
  // `is_shared`; or this is the usual thread, and `enter` has returned false.
  void lock() {
    if (taken_.exchange(1, std::memory_order_acquire) != 0) wait_for_lock();
    if (inside_.load(std::memory_order_acquire)) wait_for_inside();
  }
  bool try_lock();
  void unlock() {
    const bool wakes = sleepers_.load(std::memory_order_relaxed) != 0;
    // The last access: the next thread that holds the lock may destroy it.
    taken_.store(0, std::memory_order_release);
    if (wakes) [[unlikely]]
      wake(&taken_);
  }

  // Whether other threads wait for the thread that has entered, or locked.
  bool wanted_from_inside() const {
    return claims_.load(std::memory_order_relaxed) != 0;
  }
  bool wanted() const { return wanted_.load(std::memory_order_relaxed) != 0; }
  // Precondition: the lock is not held. Waits until another thread has it, or
  // nearly.
  void let_others() const;

  // Holds the lock for a scope, by `enter` as long as that works. Precondition:
  // this is the usual thread, or one that may call `lock`.
  class Hold {
   public:
    explicit Hold(Lock& lock) : lock_(lock) {
      if (enters()) [[likely]]
        return;
      lock_.lock();
      by_ = By::kLock;
    }
    Hold(Lock& lock, std::try_to_lock_t /*tag*/) : lock_(lock) {
      if (enters()) [[likely]]
        return;
      if (lock_.try_lock()) by_ = By::kLock;
    }
    ~Hold() { release(); }
    Hold(const Hold&) = delete;
    Hold& operator=(const Hold&) = delete;

    bool owns() const { return by_ != By::kNothing; }
    void release() {
      if (by_ == By::kMark) lock_.leave();
      if (by_ == By::kLock) lock_.unlock();
      by_ = By::kNothing;
    }

   private:
    enum class By { kNothing, kMark, kLock };

    // Only the usual thread ever sets the mark, so others look first.
    bool enters() {
      if (lock_.is_shared() || !lock_.enter()) return false;
      by_ = By::kMark;
      return true;
    }

    Lock& lock_;
    By by_ = By::kNothing;
  };

 private:
  static const bool has_barrier_;

  void claim_for_good();
  bool take();
  void wait_for_lock();
  void wait_for_inside() const;
  void sleep();
  static void wake(std::atomic<uint32_t>* taken);

  std::atomic<bool> inside_ = false;
  std::atomic<int> claims_ = has_barrier_ ? 0 : 1;
  std::atomic<bool> shared_ = !has_barrier_;
  std::atomic<uint32_t> taken_ = 0;  // the futex of sleeping threads
  std::atomic<int> wanted_ = 0, sleepers_ = 0;
};

}  // namespace dw_hostmem

#endif  // DISTWRAP_PLUGINS_HOSTMEM_LOCK_H_
