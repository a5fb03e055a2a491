// Memory that a backend has allocated or registered.
//
// Threads: any. Ownership: keeps the backend open; gives the memory back at its
// end.
#ifndef DISTWRAP_SRC_COMM_MEMORY_H_
#define DISTWRAP_SRC_COMM_MEMORY_H_

#include "base/mutex.h"
#include "comm/backend_instance.h"

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <atomic>
#include <cstdint>
#include <memory>

namespace distwrap::comm {

class Allocation {
 public:
  // Errors: kUnsupported, those of the backend.
  static absl::StatusOr<std::shared_ptr<Allocation>> make(
      std::shared_ptr<BackendInstance> backend, int64_t bytes);
  // Wraps the caller's memory, which has to outlive the allocation.
  static absl::StatusOr<std::shared_ptr<Allocation>> of_callers(
      std::shared_ptr<BackendInstance> backend, void* data, int64_t bytes);
  // Checks that the backend has such memory.
  static absl::Status check(const BackendInstance& backend);
  ~Allocation();
  Allocation(const Allocation&) = delete;
  Allocation& operator=(const Allocation&) = delete;

  // NULL and 0 when it was given back.
  void* data() const { return is_released() ? nullptr : data_; }
  int64_t bytes() const { return is_released() ? 0 : bytes_; }
  Device device() const;
  absl::Status release();

 private:
  static absl::Status check(const BackendInstance& backend, int64_t bytes);
  Allocation(std::shared_ptr<BackendInstance> backend, dw_mem* memory,
             void* data, int64_t bytes);

  bool is_released() const { return released_.load(std::memory_order_acquire); }

  const std::shared_ptr<BackendInstance> backend_;
  base::Mutex mutex_;
  dw_mem* const memory_;
  std::atomic<bool> released_{false};
  void* const data_;
  const int64_t bytes_;
};

}  // namespace distwrap::comm

#endif  // DISTWRAP_SRC_COMM_MEMORY_H_
