// Memory of a group's backend.
#include "distwrap/memory.h"

#include "base/exceptions.h"
#include "comm/memory.h"
#include "facade/binding.h"

#include <utility>

namespace distwrap {
namespace {

absl::StatusOr<std::shared_ptr<comm::BackendInstance>> backend_of(
    const Group& group, Device device, const char* call) {
  const auto state = facade::usable_group(group, call);
  if (!state.ok()) return state.status();
  const comm::BackendCommunicator* const found = (*state)->find(device);
  if (found == nullptr) return (*state)->no_communicator(device);
  return found->kept_instance();
}

}  // namespace

void* Memory::data() const {
  return allocation_ == nullptr ? nullptr : allocation_->data();
}

int64_t Memory::bytes() const {
  return allocation_ == nullptr ? 0 : allocation_->bytes();
}

TensorView Memory::view(DType dtype) const {
  if (allocation_ == nullptr) return {nullptr, 0, dtype};
  return {data(), bytes() / dtype_size(dtype), dtype, allocation_->device()};
}

absl::Status Memory::release() try {
  return allocation_ == nullptr ? absl::OkStatus() : allocation_->release();
} catch (...) {
  return base::error_of_exception("release");
}

absl::StatusOr<Memory> MemAllocator::allocate(int64_t bytes) const try {
  auto made = comm::Allocation::make(backend_, bytes);
  if (!made.ok()) return made.status();
  return Memory(*std::move(made));
} catch (...) {
  return base::error_of_exception("allocate");
}

absl::StatusOr<MemAllocator> get_mem_allocator(const Group& group,
                                               Device device) try {
  auto backend = backend_of(group, device, "get_mem_allocator");
  if (!backend.ok()) return backend.status();
  if (absl::Status status = comm::Allocation::check(**backend); !status.ok())
    return status;
  return MemAllocator(*std::move(backend));
} catch (...) {
  return base::error_of_exception("get_mem_allocator");
}

absl::StatusOr<Memory> register_mem_pool(const Group& group, Device device,
                                         void* pool, int64_t bytes) try {
  auto backend = backend_of(group, device, "register_mem_pool");
  if (!backend.ok()) return backend.status();
  auto made = comm::Allocation::of_callers(*std::move(backend), pool, bytes);
  if (!made.ok()) return made.status();
  return Memory(*std::move(made));
} catch (...) {
  return base::error_of_exception("register_mem_pool");
}

}  // namespace distwrap
