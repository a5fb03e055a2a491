// Memory that NCCL allocates, so that it can register it with the hardware.
// Operations register it with their communicators (launch.cc).
#include "comm_parts.h"
#include "sdk/fail.h"

#include <chrono>
#include <mutex>
#include <thread>
#include <utility>

namespace nccl_backend {
namespace {

// How long a release waits for the end of a failed communicator, and for other
// calls of NCCL.
constexpr std::chrono::seconds kEndPatience{2};

// Whether the communicator has let go of the block. One that has failed does so
// when it ends, which this begins: NCCL has stopped the threads by which it
// would deregister memory.
bool has_let_go(Backend& backend, const Block& block,
                const std::shared_ptr<NcclPart>& part, int* result) {
  std::unique_lock<CallLock> inside(part->inside, std::try_to_lock);
  if (!inside.owns_lock()) return false;
  const auto found = part->registered.find(block.at);
  if (found == part->registered.end()) return true;
  if (part->handle == nullptr) return part->has_ended();
  if (part->revoked) {
    abort_part(backend, part, AbortBy::kAbort, std::move(inside));
    return false;
  }
  // The instance's thread is about to abort it, or NCCL splits it.
  if (part->failure.is_over() || part->splitting) return false;
  const std::unique_lock<CallLock> calls(backend.device->calls(),
                                         std::try_to_lock);
  if (!calls.owns_lock()) return false;
  backend.device->calls().say("the release of memory", 0);
  *result = backend.nccl.ncclCommDeregister(part->handle, found->second);
  if (*result != ncclSuccess) return false;
  part->registered.erase(found);
  return true;
}

int32_t deregister_from(Backend& backend, const Block& block,
                        const std::shared_ptr<NcclPart>& part,
                        dw_error* error) {
  const auto limit = std::chrono::steady_clock::now() + kEndPatience;
  int result = ncclSuccess;
  while (!has_let_go(backend, block, part, &result)) {
    if (result != ncclSuccess)
      return fail_nccl(backend.nccl, "ncclCommDeregister", result, nullptr,
                       error);
    if (std::chrono::steady_clock::now() >= limit)
      return dw_invalid(error,
                        "nccl: the memory is registered with a communicator "
                        "that has failed and does not end, or that NCCL has "
                        "not let go of");
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  return DW_OK;
}

int32_t deregister(Backend& backend, const Block& block, dw_error* error) {
  for (const std::shared_ptr<NcclPart>& part : block.parts)
    if (int32_t code = deregister_from(backend, block, part, error))
      return code;
  return DW_OK;
}

}  // namespace

int32_t mem_alloc(dw_backend* backend, uint64_t bytes, dw_mem** mem,
                  void** address, dw_error* error) {
  const CurrentContext current(*of(backend)->device);
  const RelaxedCapture relaxed(of(backend)->device->driver());
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
  of(backend)->blocks.add(made, bytes == 0 ? 1 : bytes);
  *mem = static_cast<dw_mem*>(made);
  *address = made;
  return DW_OK;
}

int32_t mem_release(dw_backend* backend, dw_mem* mem, dw_error* error) {
  const CurrentContext current(*of(backend)->device);
  const RelaxedCapture relaxed(of(backend)->device->driver());
  const Nccl& nccl = of(backend)->nccl;
  if (of(backend)->blocks.has_window(mem))
    return dw_invalid(error,
                      "nccl: a window is on the memory, or NCCL has not let go "
                      "of it; destroy the window first");
  Block block;
  if (int32_t code = of(backend)->blocks.take(mem, &block, error)) return code;
  if (int32_t code = deregister(*of(backend), block, error)) {
    of(backend)->blocks.put_back(std::move(block));
    return code;
  }
  const int result = nccl.ncclMemFree(mem);
  if (result == ncclSuccess) return DW_OK;
  of(backend)->blocks.put_back(std::move(block));
  return fail_nccl(nccl, "ncclMemFree", result, nullptr, error);
}

}  // namespace nccl_backend
