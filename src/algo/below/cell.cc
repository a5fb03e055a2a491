#include "algo/below/cell.h"

#include "algo/decorator.h"

namespace distwrap::algo {

void Gate::expect() {
  base::MutexLock lock(mutex_);
  ++pending_;
}

void Gate::end(int32_t code, const dw_error* error) {
  base::MutexLock lock(mutex_);
  --pending_;
  if (code != DW_OK && code_ == DW_OK) {
    code_ = code;
    if (error != nullptr)
      error_ = *error;
    else
      fail(&error_, code, DW_REASON_NONE, "the backend gave no further reason");
  }
  // Notified under the lock, because a waiter may destroy the gate afterwards.
  if (settled_locked()) changed_.notify_all();
}

bool Gate::settled() {
  base::MutexLock lock(mutex_);
  return settled_locked();
}

bool Gate::wait_settled(Deadline until) {
  base::MutexLock lock(mutex_);
  while (!settled_locked())
    if (!changed_.wait_until(mutex_, until)) return settled_locked();
  return true;
}

bool Gate::wait_all(Deadline until) {
  base::MutexLock lock(mutex_);
  while (pending_ != 0)
    if (!changed_.wait_until(mutex_, until)) return pending_ == 0;
  return true;
}

int32_t Gate::take(dw_error* error) {
  base::MutexLock lock(mutex_);
  const int32_t code = code_;
  if (code != DW_OK && error != nullptr) *error = error_;
  code_ = DW_OK;
  return code;
}

}  // namespace distwrap::algo
