// Why a communicator or window broke. Every operation that ends by it, and
// every one that begins later, gets the same error: the host learns the cause
// from whichever of them ends first. C++ only.
#ifndef DISTWRAP_PLUGINS_SDK_KEPT_FAILURE_H_
#define DISTWRAP_PLUGINS_SDK_KEPT_FAILURE_H_

#include "sdk/fail.h"

#include <atomic>
#include <cstdio>
#include <mutex>

namespace dw_sdk {

// Threads: any.
class KeptFailure {
 public:
  explicit KeptFailure(const char* backend) {
    char text[sizeof first_.text];
    std::snprintf(text, sizeof text, "%s: the group was aborted", backend);
    dw_fail(&first_, DW_ABORTED, DW_REASON_ABORTED, -1, 0, text);
  }

  // Keeps `why` unless an earlier error is kept, then acts as `first`. `error`
  // may be NULL.
  int32_t fail(const dw_error& why, dw_error* error) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (!is_over()) {
      first_ = why;
      over_.store(true, std::memory_order_release);
    }
    return tell(error);
  }
  // An abort by the host.
  void abort() {
    std::lock_guard<std::mutex> lock(mutex_);
    over_.store(true, std::memory_order_release);
  }

  bool is_over() const { return over_.load(std::memory_order_acquire); }
  // Fills `error`, unless it is NULL, and returns its code.
  int32_t first(dw_error* error) {
    std::lock_guard<std::mutex> lock(mutex_);
    return tell(error);
  }
  // DW_OK, or the first failure.
  int32_t check(dw_error* error) {
    if (!over_.load(std::memory_order_relaxed)) [[likely]]
      return DW_OK;
    return first(error);
  }

 private:
  int32_t tell(dw_error* error) const {
    if (error != nullptr) *error = first_;
    return first_.code;
  }

  std::mutex mutex_;
  std::atomic<bool> over_ = false;
  dw_error first_ = {};  // an abort, until another error is kept
};

}  // namespace dw_sdk

#endif  // DISTWRAP_PLUGINS_SDK_KEPT_FAILURE_H_
