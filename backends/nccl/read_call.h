// Checks an operation, before anything is sent.
#ifndef DISTWRAP_BACKENDS_NCCL_READ_CALL_H_
#define DISTWRAP_BACKENDS_NCCL_READ_CALL_H_

#include "backend.h"

namespace nccl_backend {

// Where an operation runs.
enum class Order : uint8_t {
  kHost,      // on the communicator's stream; the host's order of calls
  kStream,    // on the caller's stream
  kAside,     // on the communicator's stream, behind the caller's
  kCaptured,  // on the caller's stream, which is being captured
};

struct ReadCall {
  Order order = Order::kHost;
  CUstream_st* stream = nullptr;  // the caller's; null in host order
  bool caller_waits = false;
};

// Reads the stream of `op`. DW_OK, or the code of the refusal. Precondition:
// the device's context is current.
int32_t read_stream(const Comm& comm, const dw_op& op, ReadCall* call,
                    dw_error* error);

// Checks `op` and reads its buffers, and its stream unless `*call` has that
// from an earlier operation of the group. A rank may send to itself `in_group`.
// DW_OK, or the code of the refusal. Precondition: the device's context is
// current.
int32_t read_call(const Comm& comm, const dw_op& op, bool in_group,
                  dw_sdk::Buffers* buffers, ReadCall* call, dw_error* error);

}  // namespace nccl_backend

#endif  // DISTWRAP_BACKENDS_NCCL_READ_CALL_H_
