// The device objects of a communicator, and its end.
#ifndef DISTWRAP_BACKENDS_NCCL_COMM_PARTS_H_
#define DISTWRAP_BACKENDS_NCCL_COMM_PARTS_H_

#include "backend.h"

#include <memory>
#include <mutex>

namespace nccl_backend {

// Makes the stream and the scratch memory. Precondition: the device's context
// is current.
int32_t make_parts(Comm* comm, dw_error* error);

enum class EndBy : uint8_t { kDestroy, kAbort };

// Ends a communicator in a thread of its own, behind an abort that has begun,
// and frees what it owned. The instance's thread does not know it any more.
std::shared_ptr<Ending> end_comm(std::unique_ptr<Comm> comm, EndBy by);

enum class AbortBy : uint8_t { kRevoke, kAbort };

// Begins the abort of NCCL's part, which has a handle, in a thread of its own.
// By kRevoke the part gets the handle back when that is done, if NCCL can do it
// and has not done it before; else the handle is gone. `inside` holds the
// part's mutex.
void abort_part(Backend& backend, const std::shared_ptr<NcclPart>& part,
                AbortBy by, std::unique_lock<CallLock> inside);

}  // namespace nccl_backend

#endif  // DISTWRAP_BACKENDS_NCCL_COMM_PARTS_H_
