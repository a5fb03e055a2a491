#include "failure.h"

#include "sdk/fail.h"

namespace ucx_backend {

void FirstFailure::fail(const dw_error& why) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (is_over()) return;
  first_ = why;
  broken_.store(true, std::memory_order_release);
}

int32_t FirstFailure::first(dw_error* error) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (!broken_.load(std::memory_order_acquire))
    return dw_fail(error, DW_ABORTED, DW_REASON_ABORTED, -1, 0,
                   "ucx: the group was aborted");
  if (error != nullptr) *error = first_;
  return first_.code;
}

int32_t FirstFailure::refuse(dw_error* error) {
  if (aborted_.load(std::memory_order_acquire))
    return dw_fail(error, DW_ABORTED, DW_REASON_ABORTED, -1, 0,
                   "ucx: the group was aborted");
  std::lock_guard<std::mutex> lock(mutex_);
  return dw_fail(error, DW_FAILED_PRECONDITION, DW_REASON_GROUP_BROKEN,
                 first_.peer, 0, first_.text);
}

}  // namespace ucx_backend
