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

// Nothing in it is borrowed from the operation but the buffers.
struct Call : dw_sdk::Buffers {
  uint16_t kind = 0;
  uint16_t reduce = 0;
  int32_t peer = -1;
  uint64_t tag = 0;  // of send and recv
  uint64_t seq = 0;
  uint64_t digest = 0;  // of what the ranks of a collective agree on

  bool is_message() const { return kShapes[kind].message; }
};

// The call of an operation, in place of what was in `call`. DW_OK, or why it is
// refused: nothing has happened.
int32_t read_call(const dw_comm* comm, const dw_op* op, Call* call,
                  dw_error* error);

}  // namespace gloo_backend

#endif  // DISTWRAP_BACKENDS_GLOO_CALL_H_
