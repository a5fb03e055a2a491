// The ends of communicators: by an abort, or in peace.
#include "comm_parts.h"
#include "sdk/fail.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

namespace nccl_backend {
namespace {

using std::chrono::microseconds;
using std::chrono::nanoseconds;

// How long an end may take once the other ranks and all graphs have done their
// part: NCCL joins threads that look every half second whether they should end.
constexpr std::chrono::seconds kDestroyPatience{2};

// Everything that an end uses; it may run when the instance has been closed.
struct Owned {
  Nccl nccl;
  std::shared_ptr<Device> device;
  ncclComm* handle = nullptr;
  CUstream_st* stream = nullptr;
  CUevent_st* before = nullptr;
  CUdeviceptr scratch = 0;
};

void destroy_in_peace(const Owned& owned, Ending& ending) {
  int result;
  {
    const std::lock_guard<std::mutex> calls(owned.device->calls());
    result = owned.nccl.ncclCommFinalize(owned.handle);
  }
  // NCCL finalizes when all ranks do, and when no captured graph is left that
  // uses the communicator.
  microseconds nap(50);
  while (result == ncclSuccess || result == ncclInProgress) {
    int state = ncclSuccess;
    result = owned.nccl.ncclCommGetAsyncError(owned.handle, &state);
    if (result == ncclSuccess) result = state;
    if (result == ncclSuccess) {
      ending.settled();
      owned.nccl.ncclCommDestroy(owned.handle);
      return;
    }
    std::this_thread::sleep_for(nap);
    nap = std::min(nap * 2, microseconds(10000));
  }
  owned.nccl.ncclCommAbort(owned.handle);
}

void free_parts(const Owned& owned) {
  const Driver& driver = owned.device->driver();
  if (owned.before != nullptr) driver.cuEventDestroy_v2(owned.before);
  if (owned.stream != nullptr) driver.cuStreamDestroy_v2(owned.stream);
  if (owned.scratch != 0) driver.cuMemFree_v2(owned.scratch);
}

}  // namespace

int32_t make_parts(Comm* comm, dw_error* error) {
  const Driver& driver = comm->backend->device->driver();
  if (int result = driver.cuStreamCreate(&comm->stream, CU_STREAM_NON_BLOCKING);
      result != CUDA_SUCCESS)
    return fail_driver(driver, "a stream cannot be made", result, error);
  if (int result = driver.cuEventCreate(&comm->before, CU_EVENT_DISABLE_TIMING);
      result != CUDA_SUCCESS)
    return fail_driver(driver, "an event cannot be made", result, error);
  if (int result = driver.cuMemAlloc_v2(&comm->scratch, kScratchBytes);
      result != CUDA_SUCCESS)
    return fail_driver(driver, "memory of the device", result, error);
  return DW_OK;
}

std::shared_ptr<Ending> end_comm(std::unique_ptr<Comm> comm, EndBy by) {
  Owned owned = {comm->backend->nccl, comm->backend->device, nullptr,
                 comm->stream,        comm->before,          comm->scratch};
  std::shared_ptr<Ending> abort;
  {
    const std::lock_guard<std::mutex> inside(comm->inside);
    owned.handle = std::exchange(comm->handle, nullptr);
    abort = comm->ending;
  }
  return comm->backend->endings.begin([owned, abort, by](Ending& ending) {
    const CurrentContext current(*owned.device);
    // Freeing memory in another mode would end captures of other threads.
    const RelaxedCapture relaxed(owned.device->driver());
    // An abort that hangs keeps this thread, too; both are left behind.
    while (abort != nullptr && !abort->wait(std::chrono::hours(1))) {
    }
    if (owned.handle != nullptr) {
      if (by == EndBy::kAbort)
        owned.nccl.ncclCommAbort(owned.handle);
      else
        destroy_in_peace(owned, ending);
    }
    free_parts(owned);
  });
}

bool abort_if_broken(Comm* comm) {
  std::unique_lock<std::mutex> inside(comm->inside, std::try_to_lock);
  if (!inside.owns_lock()) return false;
  if (comm->handle == nullptr) return true;
  const Nccl nccl = comm->backend->nccl;
  const std::shared_ptr<Device> device = comm->backend->device;
  ncclComm* const handle = std::exchange(comm->handle, nullptr);
  comm->ending = comm->backend->endings.begin([nccl, device, handle](Ending&) {
    const CurrentContext current(*device);
    const RelaxedCapture relaxed(device->driver());
    nccl.ncclCommAbort(handle);
  });
  return true;
}

void wait_for_abort(Comm* comm, nanoseconds patience) {
  const auto limit = std::chrono::steady_clock::now() + patience;
  for (;;) {
    const auto now = std::chrono::steady_clock::now();
    if (now >= limit) return;
    std::shared_ptr<Ending> ending;
    {
      const std::lock_guard<std::mutex> inside(comm->inside);
      ending = comm->ending;
    }
    if (ending != nullptr) {
      ending->wait(limit - now);
      return;
    }
    std::this_thread::sleep_for(microseconds(50));
  }
}

int32_t comm_abort(dw_comm* comm, const dw_error* why) {
  if (why != nullptr)
    of(comm)->failure.fail(*why, nullptr);
  else
    of(comm)->failure.abort();
  of(comm)->backend->watch->hurry();
  return DW_OK;
}

int32_t comm_destroy(dw_comm* comm, int64_t deadline_ns, dw_error* error) {
  std::unique_ptr<Comm> owned(of(comm));
  Backend* const backend = owned->backend;
  backend->watch->remove(owned.get());
  const EndBy by = owned->failure.is_over() ? EndBy::kAbort : EndBy::kDestroy;
  const std::shared_ptr<Ending> ending = end_comm(std::move(owned), by);
  const int64_t left = deadline_ns - backend->host->now_ns(backend->host->self);
  if (deadline_ns == 0) return DW_OK;
  if (ending->wait_until_settled(nanoseconds(std::max<int64_t>(left, 0)))) {
    // A program that ends a group wants its memory back, and may capture
    // graphs, which NCCL's threads disturb when they free theirs.
    ending->wait(kDestroyPatience);
    return DW_OK;
  }
  return dw_fail(error, DW_DEADLINE_EXCEEDED, DW_REASON_TIMED_OUT, -1, 0,
                 "nccl: the communicator has not ended in time: NCCL waits for "
                 "the other ranks to end it, or for a captured graph that "
                 "uses it to be destroyed");
}

}  // namespace nccl_backend
