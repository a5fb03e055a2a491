// Memory of a group's backend, for C.
#include "distwrap/memory.h"

#include "capi/entry.h"
#include "distwrap/c.h"

#include <utility>

namespace distwrap::capi {
namespace {

Device device_of(distwrap_device device) {
  return {device.device_type, device.device_id};
}

}  // namespace
}  // namespace distwrap::capi

using namespace distwrap::capi;  // NOLINT(google-build-using-namespace)
using distwrap::Memory;

int32_t distwrap_mem_alloc(distwrap_group group, distwrap_device device,
                           int64_t bytes, distwrap_memory* memory, void** data,
                           distwrap_error* error) {
  constexpr const char* kCall = "mem_alloc";
  return entry(kCall, error, [&]() -> absl::Status {
    if (memory == nullptr) return refuse_null(kCall, "memory");
    *memory = nullptr;
    if (data == nullptr) return refuse_null(kCall, "data");
    const auto of = group_of(kCall, group);
    if (!of.ok()) return of.status();
    const auto allocator = distwrap::get_mem_allocator(*of, device_of(device));
    if (!allocator.ok()) return allocator.status();
    absl::StatusOr<Memory> made = allocator->allocate(bytes);
    if (!made.ok()) return made.status();
    void* const at = made->data();
    absl::Status given = hand_out(kCall, *std::move(made), memory);
    if (given.ok()) *data = at;
    return given;
  });
}

int32_t distwrap_register_mem_pool(distwrap_group group, distwrap_device device,
                                   void* pool, int64_t bytes,
                                   distwrap_memory* memory,
                                   distwrap_error* error) {
  constexpr const char* kCall = "register_mem_pool";
  return entry(kCall, error, [&]() -> absl::Status {
    if (memory == nullptr) return refuse_null(kCall, "memory");
    *memory = nullptr;
    const auto of = group_of(kCall, group);
    if (!of.ok()) return of.status();
    absl::StatusOr<Memory> made =
        distwrap::register_mem_pool(*of, device_of(device), pool, bytes);
    if (!made.ok()) return made.status();
    return hand_out(kCall, *std::move(made), memory);
  });
}

int32_t distwrap_mem_free(distwrap_memory memory, distwrap_error* error) {
  constexpr const char* kCall = "mem_free";
  return entry(kCall, error, [&]() -> absl::Status {
    {
      const auto found = held(kCall, memory);
      if (!found.ok()) return found.status();
      if (absl::Status given = (**found).release(); !given.ok()) return given;
    }
    if (free_handle(memory) == DW_OK) return absl::OkStatus();
    // Another thread has freed it first.
    return refuse_handle(kCall, number_of(memory),
                         BoxOf<distwrap_memory>::kKind);
  });
}
