// The lock of a worker. It is held for the time of a few calls into UCX, and by
// a thread that waits and spins: that one looks whether others want it.
//
// Nearly always one thread at a time uses it, the one whose operation waits in
// its call: it says that it is inside and looks whether anybody has a claim,
// two plain stores and a load. Who has a claim makes every running thread pass
// a memory barrier (membarrier(2)) before it looks whether somebody is inside;
// a lasting claim does that once, and from then on this is a plain lock. Where
// there is no such barrier it is one from the start.
#ifndef DISTWRAP_BACKENDS_UCX_LOCK_H_
#define DISTWRAP_BACKENDS_UCX_LOCK_H_

#include <atomic>

namespace ucx_backend {

inline void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

class Lock {
 public:
  // ---- the one thread, as long as nobody has a claim ----
  bool enter() {
    inside_.store(true, std::memory_order_relaxed);
    // The processor is kept from looking first by the claimant's barrier.
    std::atomic_signal_fence(std::memory_order_seq_cst);
    if (claims_.load(std::memory_order_acquire) == 0) [[likely]]
      return true;
    leave();
    return false;
  }
  void leave() { inside_.store(false, std::memory_order_release); }

  // ---- any thread ----
  // A claim for good; further ones cost nothing.
  void share() {
    if (!shared_.load(std::memory_order_acquire)) claim_for_good();
  }
  // Held for one's claim: a passing one, unless there is one for good.
  void claim();
  void unclaim();
  // Who has a claim.
  void lock() {
    if (taken_.exchange(true, std::memory_order_acquire)) wait_for_lock();
    if (inside_.load(std::memory_order_acquire)) wait_for_inside();
  }
  bool try_lock();
  void unlock() { taken_.store(false, std::memory_order_release); }

  // Whether others wait for who has entered, or locked.
  bool wanted_from_inside() const {
    return claims_.load(std::memory_order_relaxed) != 0;
  }
  bool wanted() const { return wanted_.load(std::memory_order_relaxed) != 0; }
  // Not held: until somebody of them has got it, or nearly.
  void let_others() const;

 private:
  static const bool has_barrier_;

  void claim_for_good();
  void wait_for_lock();
  void wait_for_inside() const;

  std::atomic<bool> inside_ = false;
  std::atomic<int> claims_ = has_barrier_ ? 0 : 1;
  std::atomic<bool> shared_ = !has_barrier_;
  std::atomic<bool> taken_ = false;
  std::atomic<int> wanted_ = 0;
};

}  // namespace ucx_backend

#endif  // DISTWRAP_BACKENDS_UCX_LOCK_H_
