#include "call.h"

#include "backend.h"
#include "sdk/fail.h"
#include "sdk/read_op.h"

namespace gloo_backend {
namespace {

uint64_t digest_sizes(const Pieces& pieces, int ranks) {
  uint64_t digest = 0;
  for (int r = 0; r < ranks; ++r) digest = mix(digest + pieces[r].bytes);
  return digest;
}

// Includes only the sizes that all ranks know; each pair of ranks checks the
// others.
uint64_t digest(const EngineOp& call, int ranks) {
  uint64_t sizes = 0;
  switch (call.kind) {
    case DW_OP_ALL_GATHER:
      sizes = digest_sizes(call.out_pieces, ranks);
      break;
    case DW_OP_REDUCE_SCATTER:
      sizes = digest_sizes(call.in_pieces, ranks);
      break;
    case DW_OP_BROADCAST:
      sizes = call.out.bytes;
      break;
    case DW_OP_ALL_REDUCE:
    case DW_OP_REDUCE:
      sizes = call.in.bytes;
      break;
    default:
      break;
  }
  const uint64_t what = static_cast<uint64_t>(call.dtype.code) << 24 |
                        static_cast<uint64_t>(call.dtype.bits) << 16 |
                        static_cast<uint64_t>(call.reduce) << 8 | call.kind;
  return mix(mix(sizes) ^ what << 32 ^ static_cast<uint32_t>(call.peer));
}

}  // namespace

int32_t read_call(const dw_comm* comm, const dw_op* given, EngineOp* call,
                  dw_error* error) {
  dw_op space;
  const dw_op* op;
  if (int32_t code = dw_read_op(&space, &op, given))
    return dw_fail(error, code, DW_REASON_INVALID_ARGUMENT, -1, 0,
                   "the operation has a size or a field that is not known");
  const dw_sdk::Shape& shape = dw_sdk::shape_in(kShapes, op->kind);
  if (int32_t code =
          dw_sdk::check_form(*op, shape, comm->rank, comm->size, error))
    return code;
  if (int32_t code =
          dw_sdk::read_buffers(*op, shape, types_of(op->kind, op->reduce),
                               comm->rank, comm->size, call, error))
    return code;
  call->kind = op->kind;
  call->reduce = op->reduce;
  call->peer = op->peer;
  call->tag = op->tag;
  call->seq = op->seq;
  if (!shape.message) call->digest = digest(*call, comm->size);
  return DW_OK;
}

}  // namespace gloo_backend
