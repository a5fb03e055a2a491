#include "call.h"

#include "backend.h"
#include "sdk/dtype.h"
#include "sdk/fail.h"
#include "sdk/read_op.h"

namespace gloo_backend {
namespace {

// Gloo's slots begin with the number of a collective, 1 to 8.
constexpr uint64_t kMessagePrefix = UINT64_C(0x40) << 56;
constexpr uint64_t kExchangePrefix = UINT64_C(0x41) << 56;

// Of a message's slot 24 bits tell the size: itself, or a digest beginning with
// a one.
constexpr int kSizeBits = 24;
constexpr uint64_t kExactSizes = UINT64_C(1) << (kSizeBits - 1);

uint64_t mix(uint64_t x) {
  x ^= x >> 32;
  x *= UINT64_C(0x9e3779b97f4a7c15);
  x ^= x >> 29;
  x *= UINT64_C(0xbf58476d1ce4e5b9);
  return x ^ x >> 32;
}

// What ranks have to agree on beside the kind. Outputs have the same size
// everywhere, inputs of a broadcast exist on the root only.
uint64_t digest(const Call& call) {
  const uint64_t what = static_cast<uint64_t>(call.dtype.code) << 24 |
                        static_cast<uint64_t>(call.dtype.bits) << 16 |
                        call.reduce;
  return mix(mix(call.out_bytes) ^ what << 32 ^
             static_cast<uint32_t>(call.peer));
}

int32_t unsupported(dw_error* error, const char* text) {
  return dw_fail(error, DW_UNIMPLEMENTED, DW_REASON_UNSUPPORTED, -1, 0, text);
}

int32_t invalid(dw_error* error, const char* text) {
  return dw_fail(error, DW_INVALID_ARGUMENT, DW_REASON_INVALID_ARGUMENT, -1, 0,
                 text);
}

bool equal(dw_dtype a, dw_dtype b) {
  return a.code == b.code && a.bits == b.bits && a.lanes == b.lanes;
}

bool contiguous(const dw_buf& buf) {
  return buf.parts == nullptr && buf.counts == nullptr;
}

int32_t check_promise(const dw_op* op, dw_error* error) {
  if (!has(kOps, op->kind))
    return unsupported(error, "gloo: this operation is not supported");
  if ((op->flags & ~kFlags) != 0)
    return unsupported(error, "gloo: a flag is not supported");
  if (dw_check_extensions(op->next) != DW_OK)
    return unsupported(error, "gloo: no extension is supported");
  if (op->stream.device_type != 0 && op->stream.device_type != DW_DEVICE_CPU)
    return unsupported(error, "gloo: only host memory is supported");
  if (has(kReductions, op->kind) ? !has(kReduceOps, op->reduce)
                                 : op->reduce != DW_REDUCE_NONE)
    return unsupported(error, "gloo: reductions are sum and max");
  if (op->kind == DW_OP_ALL_TO_ALL && (op->flags & DW_FLAG_IN_PLACE) != 0)
    return unsupported(error, "gloo: all_to_all does not work in place");
  return DW_OK;
}

bool takes_input(const dw_op* op, const dw_comm* comm) {
  return op->kind != DW_OP_RECV &&
         (op->kind != DW_OP_BROADCAST || op->peer == comm->rank);
}

int32_t check_counts(const dw_comm* comm, const dw_op* op, dw_error* error) {
  const int64_t in = op->in.count;
  const int64_t out = op->out.count;
  const bool fits =
      op->kind == DW_OP_ALL_GATHER
          ? in <= INT64_MAX / comm->size && out == comm->size * in
      : op->kind == DW_OP_REDUCE_SCATTER
          ? out <= INT64_MAX / comm->size && in == comm->size * out
          : out == in;
  if (!fits) return invalid(error, "gloo: input and output do not fit");
  if (op->kind == DW_OP_ALL_TO_ALL && in % comm->size != 0)
    return invalid(error, "gloo: all_to_all has one equal part for each rank");
  return DW_OK;
}

int32_t read_buffers(const dw_comm* comm, const dw_op* op, Call* call,
                     dw_error* error) {
  const bool has_in = takes_input(op, comm);
  const bool has_out = op->kind != DW_OP_SEND;
  call->dtype = has_out ? op->out.dtype : op->in.dtype;
  if (!has(kDtypes, dw_dtype_index(call->dtype)))
    return unsupported(error, "gloo: dtypes are f32 and i64");
  if ((has_in && !contiguous(op->in)) || (has_out && !contiguous(op->out)))
    return unsupported(error, "gloo: buffers are one contiguous piece");
  if (has_in && has_out && !equal(op->in.dtype, op->out.dtype))
    return invalid(error, "gloo: input and output have one dtype");
  if ((has_in && op->in.count < 0) || (has_out && op->out.count < 0))
    return invalid(error, "gloo: a count is negative");
  if (has_in && has_out)
    if (int32_t code = check_counts(comm, op, error)) return code;
  call->element = dw_dtype_bytes(call->dtype);
  if (has_in) {
    call->in = static_cast<const char*>(op->in.data);
    call->in_bytes = static_cast<size_t>(op->in.count) * call->element;
  }
  if (has_out) {
    call->out = static_cast<char*>(op->out.data);
    call->out_bytes = static_cast<size_t>(op->out.count) * call->element;
  }
  return DW_OK;
}

int32_t check_peer(const dw_comm* comm, const Call& call, dw_error* error) {
  if (call.kind != DW_OP_BROADCAST && !call.is_message()) return DW_OK;
  if (call.peer < 0 || call.peer >= comm->size)
    return invalid(error, "gloo: the root or peer is not in the group");
  if (call.is_message() && call.peer == comm->rank)
    return unsupported(error, "gloo: a rank cannot send to itself");
  if (call.is_message() && call.tag > UINT32_MAX)
    return unsupported(error, "gloo: tags have 32 bits");
  return DW_OK;
}

}  // namespace

int32_t read_call(const dw_comm* comm, const dw_op* given, Call* call,
                  dw_error* error) {
  dw_op space;
  const dw_op* op;
  if (int32_t code = dw_read_op(&space, &op, given))
    return dw_fail(error, code, DW_REASON_INVALID_ARGUMENT, -1, 0,
                   "gloo: the operation has a size or a field that is not "
                   "known");
  if (int32_t code = check_promise(op, error)) return code;
  call->kind = op->kind;
  call->reduce = op->reduce;
  call->peer = op->peer;
  call->tag = op->tag;
  call->seq = op->seq;
  if (op->kind != DW_OP_BARRIER)
    if (int32_t code = read_buffers(comm, op, call, error)) return code;
  return check_peer(comm, *call, error);
}

uint32_t collective_tag(const Call& call) {
  // Sequence numbers of operations in flight together are close, so their lower
  // half tells them apart for certain; the upper half finds calls that differ.
  return static_cast<uint32_t>(digest(call) & 0xffff) << 16 |
         static_cast<uint32_t>(call.seq & 0xffff);
}

uint64_t exchange_slot(const Call& call) {
  return kExchangePrefix | (digest(call) & 0xffffff) << 32 |
         (call.seq & UINT32_MAX);
}

uint64_t message_slot(const Call& call) {
  const uint64_t bytes = call.in_bytes + call.out_bytes;
  const uint64_t size = bytes < kExactSizes
                            ? bytes
                            : kExactSizes | (mix(bytes) & (kExactSizes - 1));
  return kMessagePrefix | call.tag << kSizeBits | size;
}

}  // namespace gloo_backend
