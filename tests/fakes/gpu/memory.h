// Memory of fake devices. The host cannot touch it: its pages have no access,
// and the device reaches them by another mapping.
#ifndef DISTWRAP_TESTS_FAKES_GPU_MEMORY_H_
#define DISTWRAP_TESTS_FAKES_GPU_MEMORY_H_

#include "fakes/gpu/rules.h"

#include <cstddef>
#include <memory>

namespace fakes::gpu {

// Null when there is none.
FAKE_EXPORT void* allocate(int device, size_t bytes);
// Freeing memory that an operation in flight uses breaks a rule. False when
// `address` was not allocated.
FAKE_EXPORT bool release(void* address);
// The bytes of a device that nobody has, of a size that is not enforced.
inline constexpr size_t kDeviceMemory = size_t{80} << 30;
FAKE_EXPORT size_t free_memory();
// The first address of the allocation with this one; null: none.
FAKE_EXPORT const void* allocation_of(const void* address);
// The device of an address, -1 for memory of the host.
FAKE_EXPORT int device_of(const void* address);

// Copies beside all streams, for tests: nothing may be in flight there.
FAKE_EXPORT void write(void* device_memory, const void* host, size_t bytes);
FAKE_EXPORT void read(void* host, const void* device_memory, size_t bytes);

// Where the device's own code reaches `bytes` at `address`. Anything but memory
// of this device breaks a rule, unless memory of the host is allowed, which the
// conformance suite uses.
FAKE_EXPORT char* reach(int device, const void* address, size_t bytes);
FAKE_EXPORT void allow_host_memory(bool allowed);

// Keeps memory in use, from an operation's call to its end. Null for memory of
// the host.
FAKE_EXPORT std::shared_ptr<void> hold(const void* address);

}  // namespace fakes::gpu

#endif  // DISTWRAP_TESTS_FAKES_GPU_MEMORY_H_
