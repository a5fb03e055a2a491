// An operation as the engine runs it: checked, with sizes in bytes.
#ifndef DISTWRAP_BACKENDS_GLOO_CALL_H_
#define DISTWRAP_BACKENDS_GLOO_CALL_H_

#include "distwrap/abi/plugin.h"
#include "promise.h"
#include "sdk/buffers.h"
#include "slots.h"

#include <cstdint>

namespace gloo_backend {

using dw_sdk::Piece;
using dw_sdk::Pieces;

// Borrows only the buffers of the operation.
struct EngineOp : dw_sdk::Buffers {
  uint16_t kind = 0;
  uint16_t reduce = 0;
  int32_t peer = -1;
  uint64_t tag = 0;  // tag of a send or receive
  uint64_t seq = 0;
  uint64_t digest = 0;  // hash of the fields on which the ranks of a collective
                        // agree

  bool is_message() const { return kShapes[kind].message; }
};

// Replaces `call` by the call of an operation. DW_OK, or the code of the
// refusal, and then nothing has happened.
int32_t read_call(const dw_comm* comm, const dw_op* op, EngineOp* call,
                  dw_error* error);

}  // namespace gloo_backend

#endif  // DISTWRAP_BACKENDS_GLOO_CALL_H_
