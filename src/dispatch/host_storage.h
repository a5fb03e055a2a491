// Storages in host memory.
#ifndef DISTWRAP_SRC_DISPATCH_HOST_STORAGE_H_
#define DISTWRAP_SRC_DISPATCH_HOST_STORAGE_H_

#include "distwrap/tensor.h"

#include <cstdint>

namespace distwrap::internal {

// One block holds the state and the data, which is aligned to 64 bytes.
// nullptr where no memory is left.
StorageState* host_storage(int64_t bytes, Device device) noexcept;

}  // namespace distwrap::internal

#endif  // DISTWRAP_SRC_DISPATCH_HOST_STORAGE_H_
