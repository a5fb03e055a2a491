// Storage: counted bytes of a device, and the allocators of devices.
#include "dispatch/fail.h"
#include "dispatch/free_list.h"
#include "dispatch/host_storage.h"
#include "dispatch/registry.h"
#include "distwrap/tensor.h"

#include <absl/strings/str_cat.h>

#include <array>
#include <cstdlib>
#include <memory>
#include <new>
#include <utility>

namespace distwrap {
namespace {

// Vector loads of 64 bytes stay within a cache line.
constexpr size_t kAlignment = 64;
// Where the data of host memory begins, behind the storage's state.
constexpr size_t kStateBytes =
    (sizeof(internal::StorageState) + kAlignment - 1) / kAlignment * kAlignment;

absl::StatusOr<Storage> allocate_host(int64_t bytes, Device device) {
  internal::StorageState* const state = internal::host_storage(bytes, device);
  if (state == nullptr) {
    return make_error(
        {.reason = Reason::kOutOfMemory,
         .what = absl::StrCat("a tensor of ", bytes, " bytes does not fit"),
         .op = "Storage::allocate"});
  }
  return Storage::adopt(state);
}

absl::StatusOr<Storage> allocate_nothing(int64_t bytes, Device device) {
  return Storage(nullptr, bytes, device);
}

std::array<std::atomic<dispatch::Allocator>, dispatch::kBackends>&
allocators() {
  static std::array<std::atomic<dispatch::Allocator>, dispatch::kBackends>
      table = {nullptr, nullptr, &allocate_nothing};
  return table;
}

}  // namespace

Storage::Storage(void* data, int64_t bytes, Device device,
                 std::function<void(void*)> release,
                 std::atomic<int64_t>* objects)
    : state_(new internal::StorageState) {
  state_->data = data;
  state_->bytes = bytes;
  state_->device = device;
  state_->release = std::move(release);
  state_->objects = objects;
  if (objects != nullptr) objects->fetch_add(1, std::memory_order_relaxed);
}

absl::StatusOr<Storage> Storage::allocate(int64_t bytes, Device device) {
  const int backend = dispatch::backend_of(device);
  if (backend == dispatch::backend_of(kCpu)) {
    return allocate_host(bytes, device);
  }
  const dispatch::Allocator allocator =
      backend < 0 ? nullptr
                  : allocators()[static_cast<size_t>(backend)].load(
                        std::memory_order_acquire);
  if (allocator == nullptr) {
    return make_error(
        {.reason = Reason::kNoKernel,
         .what = absl::StrCat("no allocator for memory of device ",
                              dispatch::device_text(device)),
         .op = "Storage::allocate",
         .next_step = "load the library with the operators of the device"});
  }
  return allocator(bytes, device);
}

absl::Status dispatch::set_allocator(int32_t device_type, Allocator allocator) {
  const int backend = dispatch::backend_of({.type = device_type});
  if (backend < 0 || device_type == kCpu.type || device_type == kMeta.type) {
    return make_error(
        {.reason = Reason::kArgument,
         .what = absl::StrCat("device type ", device_type,
                              " is not one that brings an allocator"),
         .op = "register_allocator",
         .next_step = "use the type of cuda or of a private device"});
  }
  auto& place = allocators()[static_cast<size_t>(backend)];
  Allocator before = nullptr;
  if (allocator == nullptr) {
    place.store(nullptr, std::memory_order_release);
  } else if (!place.compare_exchange_strong(before, allocator)) {
    return make_error(
        {.reason = Reason::kDuplicate,
         .what = absl::StrCat(dispatch::device_text({.type = device_type}),
                              " has an allocator already"),
         .op = "register_allocator"});
  }
  return absl::OkStatus();
}

namespace internal {

StorageState* host_storage(int64_t bytes, Device device) noexcept {
  const size_t whole = kStateBytes + static_cast<size_t>(bytes);
  void* const block = dispatch::take_block(whole);
  if (block == nullptr) return nullptr;
  auto* const state = new (block) StorageState;
  state->data = static_cast<char*>(block) + kStateBytes;
  state->bytes = bytes;
  state->device = device;
  state->block_bytes = whole;
  return state;
}

void free_storage(StorageState* state) {
  if (const size_t bytes = state->block_bytes; bytes > 0) {
    state->~StorageState();
    dispatch::give_block(state, bytes);
    return;
  }
  if (state->release) state->release(state->data);
  // The library may go as soon as its last object is counted off.
  std::atomic<int64_t>* const objects = state->objects;
  delete state;
  if (objects != nullptr) objects->fetch_sub(1, std::memory_order_release);
}

}  // namespace internal
}  // namespace distwrap
