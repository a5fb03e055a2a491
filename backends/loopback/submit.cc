// One rank's collectives: each is a copy from `in` to `out`, or nothing.
//
// The way of an operation that works makes no allocation, takes no lock, calls
// no system and reads no clock; all that can be wrong is told by `refuse`, out
// of line.
#include "loopback.h"
#include "sdk/dtype.h"
#include "sdk/fail.h"
#include "sdk/read_op.h"

#include <cstring>

namespace loopback {
namespace {

constexpr uint64_t kAll = DW_BIT(DW_OP_BARRIER) | kCopies | kReductions;

bool has(uint64_t mask, unsigned index) {
  return index < 64 && (mask >> index & 1) != 0;
}

// Zero: goes to the host's stream order, which is ours.
bool on_host(const dw_stream& stream) {
  return stream.device_type == 0 || stream.device_type == DW_DEVICE_CPU;
}

bool contiguous(const dw_buf& buf) {
  return buf.parts == nullptr && buf.counts == nullptr;
}

// Everything that `submit` relies on; `bytes` is what there is to copy.
bool acceptable(const dw_comm* comm, const dw_op* op, uint64_t* bytes) {
  if (!has(kAll, op->kind) || (op->flags & ~kFlags) != 0 ||
      dw_check_extensions(op->next) != DW_OK || !on_host(op->stream) ||
      comm->aborted.load(std::memory_order_relaxed))
    return false;
  *bytes = 0;
  if (op->kind == DW_OP_BARRIER) return op->reduce == DW_REDUCE_NONE;
  if (has(kReductions, op->kind) ? !has(kReduceOps, op->reduce)
                                 : op->reduce != DW_REDUCE_NONE)
    return false;
  const uint64_t size = dw_dtype_bytes(op->out.dtype);
  *bytes = size * static_cast<uint64_t>(op->out.count);
  return size != 0 && contiguous(op->out) && contiguous(op->in) &&
         op->out.count >= 0 && op->in.count == op->out.count &&
         std::memcmp(&op->in.dtype, &op->out.dtype, sizeof(dw_dtype)) == 0 &&
         (op->kind != DW_OP_BROADCAST || op->peer == 0);
}

int32_t unsupported(dw_error* error, const char* text) {
  return dw_fail(error, DW_UNIMPLEMENTED, DW_REASON_UNSUPPORTED, -1, 0, text);
}

// Why an operation is not acceptable.
__attribute__((cold, noinline)) int32_t refuse(const dw_comm* comm,
                                               const dw_op* op,
                                               dw_error* error) {
  if (!has(kAll, op->kind))
    return unsupported(error, "loopback: this operation is not supported");
  if ((op->flags & ~kFlags) != 0)
    return unsupported(error, "loopback: a flag is not supported");
  if (dw_check_extensions(op->next) != DW_OK)
    return unsupported(error, "loopback: no extension is supported");
  if (!on_host(op->stream))
    return unsupported(error, "loopback: only host memory is supported");
  if (has(kReductions, op->kind) ? !has(kReduceOps, op->reduce)
                                 : op->reduce != DW_REDUCE_NONE)
    return unsupported(error, "loopback: reductions are sum and max");
  if (op->kind != DW_OP_BARRIER) {
    if (dw_dtype_bytes(op->out.dtype) == 0)
      return unsupported(error, "loopback: this dtype is not supported");
    if (!contiguous(op->in) || !contiguous(op->out))
      return unsupported(error, "loopback: buffers are one contiguous piece");
  }
  if (comm->aborted.load(std::memory_order_relaxed))
    return dw_fail(error, DW_ABORTED, DW_REASON_ABORTED, -1, 0,
                   "loopback: the group was aborted");
  return dw_fail(error, DW_INVALID_ARGUMENT, DW_REASON_INVALID_ARGUMENT, -1, 0,
                 "loopback: input and output have one dtype and count, and "
                 "the root is rank 0");
}

int32_t unreadable(int32_t code, dw_error* error) {
  return dw_fail(error, code, DW_REASON_INVALID_ARGUMENT, -1, 0,
                 "loopback: the operation has a size or a field that is not "
                 "known");
}

}  // namespace

int32_t query(dw_comm* comm, const dw_op* given, dw_error* error) {
  dw_op space;
  const dw_op* op;
  if (int32_t code = dw_read_op(&space, &op, given))
    return unreadable(code, error);
  uint64_t bytes;
  return acceptable(comm, op, &bytes) ? DW_OK : refuse(comm, op, error);
}

int32_t submit(dw_comm* comm, const dw_op* given, dw_work* /*work*/,
               dw_error* error) {
  dw_op space;
  const dw_op* op;
  if (int32_t code = dw_read_op(&space, &op, given))
    return unreadable(code, error);
  uint64_t bytes;
  if (!acceptable(comm, op, &bytes)) return refuse(comm, op, error);
  if (bytes != 0 && op->in.data != op->out.data)
    std::memcpy(op->out.data, op->in.data, bytes);
  return DW_DONE;
}

}  // namespace loopback
