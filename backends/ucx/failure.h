// Why a communicator broke: told once, the same to every operation it takes
// with it.
#ifndef DISTWRAP_BACKENDS_UCX_FAILURE_H_
#define DISTWRAP_BACKENDS_UCX_FAILURE_H_

#include "distwrap/abi/types.h"

#include <atomic>
#include <mutex>

namespace ucx_backend {

// Threads: any.
class FirstFailure {
 public:
  // The first one stays.
  void fail(const dw_error& why);
  void abort() { aborted_.store(true, std::memory_order_release); }

  bool is_over() const {
    return aborted_.load(std::memory_order_acquire) ||
           broken_.load(std::memory_order_acquire);
  }
  // What ended the operations that were in flight. Returns its code.
  int32_t first(dw_error* error);
  // DW_OK, or why nothing can be started any more.
  int32_t check(dw_error* error) {
    if (!aborted_.load(std::memory_order_relaxed) &&
        !broken_.load(std::memory_order_relaxed)) [[likely]]
      return DW_OK;
    return refuse(error);
  }

 private:
  int32_t refuse(dw_error* error);

  std::mutex mutex_;
  std::atomic<bool> aborted_ = false;
  std::atomic<bool> broken_ = false;
  dw_error first_ = {};  // of value once broken
};

}  // namespace ucx_backend

#endif  // DISTWRAP_BACKENDS_UCX_FAILURE_H_
