// The ends of communicators: by an abort, or in peace.
#include "comm_parts.h"
#include "sdk/fail.h"

#include <algorithm>
#include <chrono>
#include <string>
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
  std::shared_ptr<NcclPart> part;
  ncclComm* handle = nullptr;
  CUstream_st* stream = nullptr;
  CUdeviceptr scratch = 0;
};

void fail_end(const Nccl& nccl, NcclPart& part, const char* what, int result) {
  dw_error error = {};
  fail_nccl(nccl, what, result, nullptr, &error);
  part.end_failure.fail(error, nullptr);
}

// False when NCCL refuses, and keeps the communicator.
bool abort_handle(const Nccl& nccl, NcclPart& part, ncclComm* handle,
                  Ending& ending) {
  const int result = nccl.ncclCommAbort(handle);
  if (result == ncclSuccess || result == ncclInProgress) return true;
  fail_end(nccl, part, "ncclCommAbort", result);
  part.is_kept = true;
  ending.leave_behind();
  return false;
}

void abort_all(const Nccl& nccl, NcclPart& part, ncclComm* handle,
               Ending& ending) {
  part.cut = true;
  const bool aborted = abort_handle(nccl, part, handle, ending);
  // A communicator that NCCL was making of it has failed, or was made just
  // before.
  ncclComm* child = nullptr;
  {
    const std::lock_guard<CallLock> inside(part.inside);
    if (part.child != nullptr) child = std::exchange(*part.child, nullptr);
    // NCCL may still write there.
    if (!aborted) static_cast<void>(part.child.release());
  }
  if (child != nullptr) abort_handle(nccl, part, child, ending);
}

void destroy_in_peace(const Owned& owned, Ending& ending) {
  int result;
  {
    const std::lock_guard<CallLock> inside(owned.part->inside);
    const std::lock_guard<CallLock> calls(owned.device->calls());
    owned.device->calls().say("the end of a communicator", 0);
    for (const auto& [address, registration] : owned.part->registered)
      owned.nccl.ncclCommDeregister(owned.handle, registration);
    owned.part->registered.clear();
    result = owned.nccl.ncclCommFinalize(owned.handle);
    owned.part->finalizes = true;
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
      const int destroyed = owned.nccl.ncclCommDestroy(owned.handle);
      owned.part->replays.free(owned.device->driver());
      if (destroyed == ncclSuccess || destroyed == ncclInProgress) return;
      fail_end(owned.nccl, *owned.part, "ncclCommDestroy", destroyed);
      return ending.leave_behind();
    }
    std::this_thread::sleep_for(nap);
    nap = std::min(nap * 2, microseconds(10000));
  }
  fail_end(owned.nccl, *owned.part,
           "the communicator was aborted, since ncclCommFinalize failed",
           result);
  abort_all(owned.nccl, *owned.part, owned.handle, ending);
}

// Says why a communicator that ends in peace has not ended.
std::string why_not_ended(NcclPart& part, bool alone, CallLock& calls) {
  if (!part.finalizes) {
    const std::string busy = "NCCL takes one call at a time for a ";
    const std::unique_lock<CallLock> free(calls, std::try_to_lock);
    if (!free.owns_lock())
      return busy + "device, and is busy with " + calls.holder();
    const std::unique_lock<CallLock> inside(part.inside, std::try_to_lock);
    if (!inside.owns_lock())
      return busy + "communicator, and is busy with " + part.inside.holder();
  }
  const std::string others = "for the other ranks to end it";
  if (!part.captured) return "NCCL waits " + others;
  return "NCCL waits for a captured graph that uses it to be destroyed" +
         (alone ? "" : ", or " + others);
}

// Ends the operations and keeps the communicator. False when NCCL cannot.
bool revoke(const Nccl& nccl, NcclPart& part, ncclComm* handle) {
  part.cut = true;
  int result = nccl.ncclCommRevoke(handle, NCCL_REVOKE_DEFAULT);
  microseconds nap(50);
  while (result == ncclInProgress) {
    std::this_thread::sleep_for(nap);
    nap = std::min(nap * 2, microseconds(1000));
    const int asked = nccl.ncclCommGetAsyncError(handle, &result);
    if (asked != ncclSuccess) result = asked;
  }
  return result == ncclSuccess;
}

void free_parts(const Owned& owned) {
  const Driver& driver = owned.device->driver();
  if (owned.stream != nullptr) driver.cuStreamDestroy_v2(owned.stream);
  if (owned.scratch != 0) driver.cuMemFree_v2(owned.scratch);
}

}  // namespace

int32_t make_parts(Comm* comm, dw_error* error) {
  const Driver& driver = comm->backend->device->driver();
  if (int result = driver.cuStreamCreate(&comm->stream, CU_STREAM_NON_BLOCKING);
      result != CUDA_SUCCESS)
    return fail_driver(driver, "a stream cannot be made", result, error);
  if (int result = driver.cuMemAlloc_v2(&comm->scratch, kScratchBytes);
      result != CUDA_SUCCESS)
    return fail_driver(driver, "memory of the device", result, error);
  return DW_OK;
}

std::shared_ptr<Ending> end_comm(std::unique_ptr<Comm> comm, EndBy by) {
  Endings& endings = comm->backend->endings;
  Owned owned = {comm->backend->nccl, comm->backend->device,
                 comm->part,          nullptr,
                 comm->stream,        comm->scratch};
  const std::shared_ptr<Ending> ended = endings.add();
  const std::shared_ptr<Ending> abort = owned.part->set_ending(ended);
  endings.run(ended, [owned, by, abort](Ending& ending) mutable {
    const CurrentContext current(*owned.device);
    // Freeing memory in another mode would end captures of other threads.
    const RelaxedCapture relaxed(owned.device->driver());
    // An abort that hangs keeps this thread, too; both are left behind.
    while (abort != nullptr && !abort->wait(std::chrono::hours(1))) {
    }
    {
      const std::lock_guard<CallLock> inside(owned.part->inside);
      owned.handle = std::exchange(owned.part->handle, nullptr);
    }
    if (owned.handle != nullptr) {
      if (by == EndBy::kAbort || owned.part->splitting)
        abort_all(owned.nccl, *owned.part, owned.handle, ending);
      else
        destroy_in_peace(owned, ending);
    }
    if (!owned.part->is_kept) free_parts(owned);
  });
  return ended;
}

void abort_part(Backend& backend, const std::shared_ptr<NcclPart>& part,
                AbortBy by, std::unique_lock<CallLock> inside) {
  const std::shared_ptr<Ending> ending = backend.endings.add();
  part->set_ending(ending);
  ncclComm* const handle = std::exchange(part->handle, nullptr);
  part->revoking = by == AbortBy::kRevoke &&
                   backend.nccl.ncclCommRevoke != nullptr && !part->revoked;
  inside.unlock();
  backend.endings.run(ending, [nccl = backend.nccl, device = backend.device,
                               part, handle](Ending& own) {
    const CurrentContext current(*device);
    const RelaxedCapture relaxed(device->driver());
    if (part->revoking) {
      const bool revoked = revoke(nccl, *part, handle);
      const std::lock_guard<CallLock> again(part->inside);
      part->revoking = false;
      part->revoked = revoked;
      if (revoked) part->handle = handle;
      if (revoked) return;
    }
    abort_all(nccl, *part, handle, own);
  });
}

bool abort_if_broken(Comm* comm) {
  std::unique_lock<CallLock> inside(comm->part->inside, std::try_to_lock);
  if (!inside.owns_lock()) return false;
  if (comm->part->handle != nullptr && !comm->part->revoked)
    abort_part(*comm->backend, comm->part,
               comm->part->splitting ? AbortBy::kAbort : AbortBy::kRevoke,
               std::move(inside));
  return true;
}

bool wait_for_abort(Comm* comm, std::chrono::steady_clock::time_point limit) {
  for (;;) {
    const auto now = std::chrono::steady_clock::now();
    if (now >= limit) return false;
    if (const std::shared_ptr<Ending> ending = comm->part->ending())
      return ending->wait(limit - now) && !comm->part->is_kept;
    std::this_thread::sleep_for(microseconds(50));
  }
}

int32_t comm_abort(dw_comm* comm, const dw_error* why) {
  const auto end = [why](Comm* one) {
    one->host_aborted = true;
    if (why != nullptr)
      one->failure.fail(*why, nullptr);
    else
      one->failure.abort();
  };
  end(of(comm));
  {
    const std::lock_guard<std::mutex> lock(of(comm)->windows_mutex);
    for (Comm* const window : of(comm)->windows) end(window);
  }
  of(comm)->backend->watch->hurry();
  return DW_OK;
}

int32_t comm_destroy(dw_comm* comm, int64_t deadline_ns, dw_error* error) {
  std::unique_ptr<Comm> owned(of(comm));
  Backend* const backend = owned->backend;
  backend->watch->remove(owned.get());
  const EndBy by = owned->failure.is_over() ? EndBy::kAbort : EndBy::kDestroy;
  const std::shared_ptr<NcclPart> part = owned->part;
  const bool alone = owned->size == 1, known = owned->host_aborted;
  const std::shared_ptr<Ending> ending = end_comm(std::move(owned), by);
  const int64_t left = deadline_ns - backend->host->now_ns(backend->host->self);
  if (deadline_ns == 0) return DW_OK;
  if (ending->wait_until_settled(nanoseconds(std::max<int64_t>(left, 0)))) {
    // A program that ends a group wants its memory back, and may capture
    // graphs, which NCCL's threads disturb when they free theirs.
    ending->wait(kDestroyPatience);
    // No operation may have told the host of the failure.
    if (!known)
      if (int32_t code = part->failure.check(error)) return code;
    return part->end_failure.check(error);
  }
  const std::string text =
      "nccl: the communicator has not ended in time: " +
      (by == EndBy::kAbort
           ? std::string("NCCL's abort has not returned")
           : why_not_ended(*part, alone, backend->device->calls()));
  // Without a graph there is nothing that the program could mend.
  return dw_fail(error, DW_DEADLINE_EXCEEDED,
                 part->captured ? DW_REASON_TIMED_OUT : DW_REASON_WAIT_EXPIRED,
                 -1, 0, text.c_str());
}

}  // namespace nccl_backend
