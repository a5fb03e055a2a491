// Tensors in memory that a backend allocates: collectives on them need no
// copies.
//
// Threads: any. Ownership: the last tensor of the memory frees it.
//
//   auto allocator = distwrap::get_mem_allocator();
//   auto gradients = distwrap::empty_in(*allocator, {1024, 1024});
//   distwrap::all_reduce(*gradients);
#ifndef DISTWRAP_TENSOR_MEMORY_H_
#define DISTWRAP_TENSOR_MEMORY_H_

#include "distwrap/memory.h"
#include "distwrap/tensor.h"

#include <absl/status/statusor.h>
#include <absl/types/span.h>

#include <cstdint>
#include <utility>

namespace distwrap {

// The memory as a storage, which holds it.
inline Storage storage_of(Memory memory) {
  void* const data = memory.data();
  const int64_t bytes = memory.bytes();
  const Device device = memory.view(DType::kU8).device();
  return Storage(data, bytes, device, [held = std::move(memory)](void*) {});
}

// A row-major tensor without initial values in new memory of the allocator.
// Errors: those of MemAllocator::allocate, kArgument for impossible sizes.
inline absl::StatusOr<Tensor> empty_in(const MemAllocator& allocator,
                                       absl::Span<const int64_t> sizes,
                                       DType dtype = DType::kF32) {
  // A tensor of the meta device checks the sizes and has the strides.
  absl::StatusOr<Tensor> shape = Tensor::empty(sizes, dtype, kMeta);
  if (!shape.ok()) return shape;
  absl::StatusOr<Memory> memory =
      allocator.allocate(shape->count() * dtype_size(dtype));
  if (!memory.ok()) return std::move(memory).status();
  return Tensor::of_storage(storage_of(*std::move(memory)), dtype, sizes,
                            shape->strides());
}

}  // namespace distwrap

#endif  // DISTWRAP_TENSOR_MEMORY_H_
