#include "comm/memory.h"

#include "base/error.h"

#include <absl/strings/str_cat.h>

#include <utility>

namespace distwrap::comm {

absl::Status Allocation::check(const BackendInstance& backend) {
  if (backend.engine().api != nullptr && backend.table()->has_memory())
    return absl::OkStatus();
  return base::make_error(
      {.reason = Reason::kUnsupported,
       .what = backend.engine().api == nullptr
                   ? "a backend whose calls are written down gives no memory"
                   : absl::StrCat("the backend ", backend.name(),
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

absl::StatusOr<std::shared_ptr<Allocation>> Allocation::make(
    std::shared_ptr<BackendInstance> backend, int64_t bytes) {
  if (absl::Status status = check(*backend, bytes); !status.ok()) return status;
  if (absl::Status status = check(*backend); !status.ok()) return status;
  const BackendInstance::Engine engine = backend->engine();
  dw_mem* memory = nullptr;
  void* data = nullptr;
  dw_error error = {};
  const int32_t code = engine.api->mem_alloc(
      engine.backend, static_cast<uint64_t>(bytes), &memory, &data, &error);
  if (code != DW_OK)
    return base::make_error(backend_error(code, error, backend->name()));
  return std::shared_ptr<Allocation>(
      new Allocation(std::move(backend), memory, data, bytes));
}

absl::StatusOr<std::shared_ptr<Allocation>> Allocation::of_callers(
    std::shared_ptr<BackendInstance> backend, void* data, int64_t bytes) {
  if (absl::Status status = check(*backend, bytes); !status.ok()) return status;
  if (data == nullptr)
    return base::make_error(
        {.reason = Reason::kInvalidArgument, .what = "the memory is NULL"});
  const BackendInstance::Engine engine = backend->engine();
  dw_mem* memory = nullptr;
  dw_error error = {};
  const int32_t code = engine.api == nullptr
                           ? int32_t{DW_UNIMPLEMENTED}
                           : engine.api->mem_register(
                                 engine.backend, data,
                                 static_cast<uint64_t>(bytes), &memory, &error);
  if (code == DW_UNIMPLEMENTED)
    return base::make_error(
        {.reason = Reason::kUnsupported,
         .what = absl::StrCat("the backend ", backend->name(),
                              " makes nothing of memory that it is told of"),
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

// What an operation still uses is better lost than taken away.
Allocation::~Allocation() { release().IgnoreError(); }

absl::Status Allocation::release() {
  // The parent's mutex may be locked for ever.
  if (backend_->is_of_parent())
    return base::make_error(base::of_parent("the memory"));
  const base::MutexLock lock(mutex_);
  if (is_released()) return absl::OkStatus();
  dw_error error = {};
  const int32_t code = backend_->engine().api->mem_release(memory_, &error);
  if (code != DW_OK)
    return base::make_error(backend_error(code, error, backend_->name()));
  released_.store(true, std::memory_order_release);
  return absl::OkStatus();
}

}  // namespace distwrap::comm
