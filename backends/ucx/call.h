// A message, or a part of an operation on a window, as the engine transfers it:
// checked, with its size in bytes.
#ifndef DISTWRAP_BACKENDS_UCX_CALL_H_
#define DISTWRAP_BACKENDS_UCX_CALL_H_

#include "distwrap/abi/types.h"

#include <cstddef>
#include <cstdint>

namespace ucx_backend {

struct EngineOp {
  bool sends = false;
  bool remote = false;  // memory in a peer's part of a window
  bool caller_waits = false;
  int32_t peer = -1;
  uint64_t tag = 0;
  int type = 0;  // for a message's elements, DW_DTYPE_<NAME>
  char* at = nullptr;
  size_t bytes = 0;
  int64_t deadline_ns = 0, timeout_ns = 0;
  dw_trace* trace = nullptr;  // only on the thread of a caller that waits
};

// DW_OK, or the code of the refusal; then nothing has happened.
int32_t read_call(int rank, int size, const dw_op* op, EngineOp* call,
                  dw_error* error);

}  // namespace ucx_backend

#endif  // DISTWRAP_BACKENDS_UCX_CALL_H_
