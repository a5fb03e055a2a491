// Memory of a backend: allocated where its operations need no copy.
//
// Threads: any. Ownership: a counted handle, of which the last one gives the
// memory back; the group may end before. The memory has to stay until the
// operations on it have ended, as any buffer.
//
//   auto allocator = distwrap::get_mem_allocator();
//   auto memory = allocator->allocate(1 << 20);
//   distwrap::all_reduce(memory->view(DType::kF32), ReduceOp::kSum);
//
// It may be used as any memory, in any call, whatever the other ranks use.
// What shm makes of it: docs/memory.md.
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
  // None.
  Memory() = default;

  explicit operator bool() const { return allocation_ != nullptr; }
  void* data() const;
  int64_t bytes() const;
  // As many elements as it has room for.
  TensorView view(DType dtype) const;

  // Gives it back now, for all handles: they are empty afterwards. OK when it
  // was. kInvalidArgument while an operation runs on it, which changes nothing.
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
  // Whole pages, zero at first. Errors: kInvalidArgument for a negative size,
  // kOutOfMemory with what was wanted and what there was.
  absl::StatusOr<Memory> allocate(int64_t bytes) const;

 private:
  friend DISTWRAP_EXPORT absl::StatusOr<MemAllocator> get_mem_allocator(
      const Group& group, Device device);
  explicit MemAllocator(std::shared_ptr<comm::BackendInstance> backend)
      : backend_(std::move(backend)) {}
  std::shared_ptr<comm::BackendInstance> backend_;
};

// Of the group's backend for a device. kUnsupported when that has no memory of
// its own. MPI: MPI_Alloc_mem. NCCL: ncclMemAlloc.
DISTWRAP_EXPORT absl::StatusOr<MemAllocator> get_mem_allocator(
    const Group& group = {}, Device device = kCpu);

// Tells the group's backend of memory from elsewhere, such as the pool of a
// tensor library, so that operations need no copy there. The pool has to
// outlive the handle, whose end takes it back. kUnsupported when the backend
// makes nothing of it. NCCL: ncclCommRegister.
DISTWRAP_EXPORT absl::StatusOr<Memory> register_mem_pool(const Group& group,
                                                         Device device,
                                                         void* pool,
                                                         int64_t bytes);

}  // namespace distwrap

#endif  // DISTWRAP_MEMORY_H_
