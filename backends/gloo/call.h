// An operation as the engine runs it: checked, with sizes in bytes.
#ifndef DISTWRAP_BACKENDS_GLOO_CALL_H_
#define DISTWRAP_BACKENDS_GLOO_CALL_H_

#include "distwrap/abi/plugin.h"

#include <cstddef>
#include <cstdint>

namespace gloo_backend {

// What `caps` promises and `query` and `submit` accept: one place for all.
inline constexpr uint64_t kMessages = DW_BIT(DW_OP_SEND) | DW_BIT(DW_OP_RECV);
inline constexpr uint64_t kMoves = DW_BIT(DW_OP_BROADCAST) |
                                   DW_BIT(DW_OP_ALL_GATHER) |
                                   DW_BIT(DW_OP_ALL_TO_ALL) | kMessages;
inline constexpr uint64_t kReductions =
    DW_BIT(DW_OP_ALL_REDUCE) | DW_BIT(DW_OP_REDUCE_SCATTER);
inline constexpr uint64_t kOps = DW_BIT(DW_OP_BARRIER) | kMoves | kReductions;
inline constexpr uint64_t kDtypes = DW_BIT(DW_DTYPE_F32) | DW_BIT(DW_DTYPE_I64);
inline constexpr uint32_t kReduceOps =
    DW_BIT(DW_REDUCE_SUM) | DW_BIT(DW_REDUCE_MAX);
inline constexpr uint32_t kFlags = DW_FLAG_IN_PLACE | DW_FLAG_CALLER_WAITS;

// Bit `index` of a mask of operations, dtypes or reductions.
inline bool has(uint64_t mask, int index) {
  return index >= 0 && index < 64 && (mask >> index & 1) != 0;
}

struct Call {
  uint16_t kind = 0;
  uint16_t reduce = 0;
  int32_t peer = -1;
  uint64_t tag = 0;  // of send and recv
  const char* in = nullptr;
  char* out = nullptr;
  size_t in_bytes = 0;
  size_t out_bytes = 0;
  size_t element = 1;  // bytes
  dw_dtype dtype = {0, 0, 0};
  uint64_t seq = 0;

  bool is_message() const { return has(kMessages, kind); }
  bool moves_nothing() const {
    return kind != DW_OP_BARRIER && in_bytes == 0 && out_bytes == 0;
  }
};

// The call of an operation. DW_OK, or why it is refused: nothing has happened.
int32_t read_call(const dw_comm* comm, const dw_op* op, Call* call,
                  dw_error* error);

// A number that is equal on all ranks for one collective call, and different
// for two that are in flight together or that do not fit each other: Gloo ends
// the process when a message is longer than what waits for it, so calls that
// differ must not meet.
uint32_t collective_tag(const Call& call);

// The same for a message, which meets only a receive of its size; outside of
// what Gloo itself uses.
uint64_t message_slot(const Call& call);

// For exchanges of our own within a collective.
uint64_t exchange_slot(const Call& call);

}  // namespace gloo_backend

#endif  // DISTWRAP_BACKENDS_GLOO_CALL_H_
