// Memory that NCCL allocates, so that it can register it with the hardware.
#include "backend.h"
#include "sdk/fail.h"

namespace nccl_backend {

int32_t mem_alloc(dw_backend* backend, uint64_t bytes, dw_mem** mem,
                  void** address, dw_error* error) {
  const CurrentContext current(*of(backend)->device);
  const Nccl& nccl = of(backend)->nccl;
  void* made = nullptr;
  // NCCL gives no memory for zero bytes.
  const int result = nccl.ncclMemAlloc(&made, bytes == 0 ? 1 : bytes);
  if (result != ncclSuccess) {
    fail_nccl(nccl, "ncclMemAlloc", result, nullptr, error);
    if (error != nullptr) {
      error->code = DW_RESOURCE_EXHAUSTED;
      error->reason = DW_REASON_OUT_OF_MEMORY;
    }
    return DW_RESOURCE_EXHAUSTED;
  }
  // The handle of memory is its address.
  *mem = static_cast<dw_mem*>(made);
  *address = made;
  return DW_OK;
}

int32_t mem_release(dw_backend* backend, dw_mem* mem, dw_error* error) {
  const CurrentContext current(*of(backend)->device);
  const Nccl& nccl = of(backend)->nccl;
  const int result = nccl.ncclMemFree(mem);
  if (result == ncclSuccess) return DW_OK;
  return fail_nccl(nccl, "ncclMemFree", result, nullptr, error);
}

}  // namespace nccl_backend
