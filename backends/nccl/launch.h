// A set of operations under way to the device, as one group of NCCL.
#ifndef DISTWRAP_BACKENDS_NCCL_LAUNCH_H_
#define DISTWRAP_BACKENDS_NCCL_LAUNCH_H_

#include "backend.h"
#include "enqueue.h"
#include "read_call.h"

#include <span>

namespace nccl_backend {

// One operation of the set.
struct LaunchItem {
  Comm* comm = nullptr;
  const dw_op* op = nullptr;
  dw_work* work = nullptr;  // null where the caller waits
  ReadCall call;
  const dw_sdk::Buffers* buffers = nullptr;
  Flight* flight = nullptr;
  int reduction = kNoReduction;     // made for a premul_sum
  Replays::Word* replay = nullptr;  // null: no replay is watched

  // Where it runs.
  CUstream_st* stream() const {
    return call.order == Order::kHost || call.order == Order::kAside
               ? comm->stream
               : call.stream;
  }
};

// Puts the items, which read_call has accepted, on their streams, and returns
// when NCCL has launched them all. Since 2.22 NCCL connects to other ranks
// inside the first calls, so this may take until they have called, too; it ends
// by the earliest deadline of the items, and soon after an abort.
//
// Without caller_waits, items that are not captured then fly, and each
// completes its work once. With it, the call waits until the device has ended
// them. Returns DW_DONE when no item flies, DW_OK when at least one does.
//
// Precondition: the device's context is current. An error means that nothing
// was started, or that the communicators of the set are broken.
int32_t launch(Backend* backend, std::span<LaunchItem> items, bool caller_waits,
               dw_error* error);

}  // namespace nccl_backend

#endif  // DISTWRAP_BACKENDS_NCCL_LAUNCH_H_
