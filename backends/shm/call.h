// An operation as the engine runs it: checked, with sizes in bytes.
#ifndef DISTWRAP_BACKENDS_SHM_CALL_H_
#define DISTWRAP_BACKENDS_SHM_CALL_H_

#include "distwrap/abi/plugin.h"
#include "promise.h"
#include "sdk/buffers.h"
#include "short_call.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace shm_backend {

struct Comm;

using dw_sdk::Piece;
using dw_sdk::Pieces;

// Nothing in it is borrowed from the operation but the buffers and the factor.
struct Call : dw_sdk::Buffers {
  uint16_t kind = 0;
  uint16_t reduce = 0;
  uint32_t flags = 0;
  int32_t peer = -1;
  uint64_t tag = 0;  // of messages
  // Of what all ranks agree on; and what goes into it for calls alike.
  uint32_t print = 0;
  uint64_t print_base = 0;
  const void* scale = nullptr;
  int64_t deadline_ns = 0, timeout_ns = 0;

  bool is_message() const { return kShapes[kind].message; }
  bool caller_waits() const { return (flags & DW_FLAG_CALLER_WAITS) != 0; }
  bool per_rank() const { return (flags & DW_FLAG_PER_RANK) != 0; }
};

// The call of an operation, in place of what was in `call`. DW_OK, or why it is
// refused: nothing has happened.
int32_t read_call(const Comm* comm, const dw_op* op, Call* call,
                  dw_error* error);

// Calls that follow each other are mostly alike but for their buffers, numbers
// and counts of pairs: then nothing else has to be checked again.
class CallReader {
 public:
  int32_t read(const Comm* comm, const dw_op* op, dw_error* error);
  Call call;
  ShortCall as_short;

 private:
  template <bool kDivided>
  bool again(const Comm& comm, const dw_op& op);

  dw_op last_ = {};  // struct_size 0: none
  // It had counts for both buffers, which only pairs of ranks know.
  bool divided_ = false;
};

// Sends and receives take turns.
class CallReaders {
 public:
  // Whether an operation given to `submit` may run to its end there.
  static bool caller_waits(const dw_op* op) {
    return op != nullptr && (op->flags & DW_FLAG_CALLER_WAITS) != 0;
  }
  CallReader& of(const dw_op* op) {
    if (op == nullptr) return collectives_;
    return op->kind == DW_OP_SEND   ? sends_
           : op->kind == DW_OP_RECV ? receives_
                                    : collectives_;
  }

 private:
  CallReader collectives_, sends_, receives_;
};

}  // namespace shm_backend

#endif  // DISTWRAP_BACKENDS_SHM_CALL_H_
