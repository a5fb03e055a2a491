#include "comm/memory.h"

#include "base/error.h"

#include <absl/strings/str_cat.h>

#include <utility>

namespace distwrap::comm {

absl::Status Allocation::check(const BackendInstance& backend) {
  if (backend.engine()->has_memory()) return absl::OkStatus();
  return base::make_error(
      {.reason = Reason::kUnsupported,
       .what = absl::StrCat("the backend ", backend.name(),
                            " has no memory of its own"),
       .next_step = "allocate as usual: every buffer can be communicated"});
}

absl::Status Allocation::check(const BackendInstance& backend, int64_t bytes) {
  if (backend.is_of_parent())
    return base::make_error(base::of_parent("the allocator"));
  if (bytes < 0)
    return base::make_error({.reason = Reason::kInvalidArgument,
                             .what = "the size is negative",
                             .actual = absl::StrCat(bytes, " bytes")});
  return absl::OkStatus();
}

Device Allocation::device() const { return backend_->device(); }

absl::StatusOr<std::shared_ptr<Allocation>> Allocation::make(
    std::shared_ptr<BackendInstance> backend, int64_t bytes) {
  if (absl::Status status = check(*backend, bytes); !status.ok()) return status;
  if (absl::Status status = check(*backend); !status.ok()) return status;
  dw_mem* memory = nullptr;
  void* data = nullptr;
  dw_error error = {};
  const int32_t code = backend->api().mem_alloc(
      backend->backend(), static_cast<uint64_t>(bytes), &memory, &data, &error);
  if (code != DW_OK)
    return base::make_error(backend_error(code, error, backend->name()));
  if (backend->capabilities().registering() != 0)
    backend->allocations().add(data, bytes);
  return std::shared_ptr<Allocation>(
      new Allocation(std::move(backend), memory, data, bytes));
}

absl::StatusOr<std::shared_ptr<Allocation>> Allocation::of_callers(
    std::shared_ptr<BackendInstance> backend, void* data, int64_t bytes) {
  if (absl::Status status = check(*backend, bytes); !status.ok()) return status;
  if (data == nullptr)
    return base::make_error(
        {.reason = Reason::kInvalidArgument, .what = "the memory is NULL"});
  dw_mem* memory = nullptr;
  dw_error error = {};
  const int32_t code = backend->api().mem_register(
      backend->backend(), data, static_cast<uint64_t>(bytes), &memory, &error);
  if (code == DW_UNIMPLEMENTED)
    return base::make_error(
        {.reason = Reason::kUnsupported,
         .what = absl::StrCat("the backend ", backend->name(),
                              " has no use for registered memory"),
         .next_step = "use the memory as it is: every buffer can be "
                      "communicated"});
  if (code != DW_OK)
    return base::make_error(backend_error(code, error, backend->name()));
  return std::shared_ptr<Allocation>(
      new Allocation(std::move(backend), memory, data, bytes));
}

Allocation::Allocation(std::shared_ptr<BackendInstance> backend, dw_mem* memory,
                       void* data, int64_t bytes)
    : backend_(std::move(backend)),
      memory_(memory),
      data_(data),
      bytes_(bytes) {}

// If an operation still uses the memory, it is leaked rather than taken away.
Allocation::~Allocation() { release().IgnoreError(); }

absl::Status Allocation::release() {
  // In the child of a fork the mutex may be locked for ever.
  if (backend_->is_of_parent())
    return base::make_error(base::of_parent("the memory"));
  const base::MutexLock lock(mutex_);
  if (is_released()) return absl::OkStatus();
  dw_error error = {};
  const int32_t code =
      backend_->api().mem_release(backend_->backend(), memory_, &error);
  if (code != DW_OK)
    return base::make_error(backend_error(code, error, backend_->name()));
  backend_->allocations().remove(data_);
  released_.store(true, std::memory_order_release);
  return absl::OkStatus();
}

}  // namespace distwrap::comm
