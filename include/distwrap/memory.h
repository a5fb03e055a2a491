// Memory that a backend allocates so that its operations need no copies.
//
// Threads: any. Ownership: a counted handle; the last one frees the memory,
// also after the group has ended. As any buffer, the memory has to stay until
// the operations on it have ended.
//
//   auto allocator = distwrap::get_mem_allocator();
//   auto memory = allocator->allocate(1 << 20);
//   distwrap::all_reduce(memory->view(DType::kF32), ReduceOp::kSum);
//
// Every call accepts this memory wherever it accepts other memory. Over shm the
// ranks of one call need not agree on it, over nccl they have to. See
// docs/memory.md.
#ifndef DISTWRAP_MEMORY_H_
#define DISTWRAP_MEMORY_H_

#include "distwrap/export.h"
#include "distwrap/group.h"
#include "distwrap/tensor_view.h"
#include "distwrap/types.h"

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstdint>
#include <memory>
#include <utility>

namespace distwrap {

namespace comm {
class Allocation;
class BackendInstance;
}  // namespace comm

class DISTWRAP_EXPORT Memory {
 public:
  // A handle of no memory.
  Memory() = default;

  explicit operator bool() const { return allocation_ != nullptr; }
  void* data() const;
  int64_t bytes() const;
  // A view of all the elements for which the memory has room, on its device.
  TensorView view(DType dtype) const;

  // Frees the memory now; all handles of it become empty. kInvalidArgument
  // while an operation uses the memory, and then nothing changes.
  absl::Status release();

 private:
  friend class MemAllocator;
  friend DISTWRAP_EXPORT absl::StatusOr<Memory> register_mem_pool(
      const Group& group, Device device, void* pool, int64_t bytes);
  explicit Memory(std::shared_ptr<comm::Allocation> allocation)
      : allocation_(std::move(allocation)) {}
  std::shared_ptr<comm::Allocation> allocation_;
};

class DISTWRAP_EXPORT MemAllocator {
 public:
  // Allocates whole pages. Host memory is zero at first; memory of a device may
  // hold anything. Errors: kInvalidArgument for a negative size, kOutOfMemory
  // with the size wanted and the size available.
  absl::StatusOr<Memory> allocate(int64_t bytes) const;

 private:
  friend DISTWRAP_EXPORT absl::StatusOr<MemAllocator> get_mem_allocator(
      const Group& group, Device device);
  explicit MemAllocator(std::shared_ptr<comm::BackendInstance> backend)
      : backend_(std::move(backend)) {}
  std::shared_ptr<comm::BackendInstance> backend_;
};

// The allocator of the group's backend for a device. kUnsupported when the
// backend has no memory of its own.
// MPI: MPI_Alloc_mem. NCCL: ncclMemAlloc.
DISTWRAP_EXPORT absl::StatusOr<MemAllocator> get_mem_allocator(
    const Group& group = {}, Device device = kCpu);

// Registers memory from elsewhere, such as the pool of a tensor library, with
// the group's backend, so that operations on it need no copies. The pool has to
// outlive the handle; the end of the handle unregisters it. kUnsupported when
// the backend has no use for it. NCCL: ncclCommRegister.
DISTWRAP_EXPORT absl::StatusOr<Memory> register_mem_pool(const Group& group,
                                                         Device device,
                                                         void* pool,
                                                         int64_t bytes);

}  // namespace distwrap

#endif  // DISTWRAP_MEMORY_H_
