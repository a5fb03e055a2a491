#include "call.h"

#include "promise.h"
#include "sdk/dtype.h"
#include "sdk/fail.h"
#include "sdk/read_op.h"

namespace ucx_backend {
namespace {

// The limit of a message's elements, which keeps sizes in bytes from
// overflowing.
constexpr int64_t kMostElements = INT64_MAX / 64;

}  // namespace

int32_t read_call(int rank, int size, const dw_op* given, EngineOp* call,
                  dw_error* error) {
  dw_op space;
  const dw_op* op;
  if (int32_t code = dw_read_op(&space, &op, given))
    return dw_fail(error, code, DW_REASON_INVALID_ARGUMENT, -1, 0,
                   "the operation has a size or a field that is not known");
  const dw_sdk::Shape& shape = dw_sdk::shape_in(kShapes, op->kind);
  if (int32_t code = dw_sdk::check_form(*op, shape, rank, size, error))
    return code;
  const dw_buf& buf = shape.has_in ? op->in : op->out;
  if (buf.counts != nullptr || buf.parts != nullptr)
    return dw_unsupported(error, "this buffer is one piece");
  const int type = dw_dtype_index(buf.dtype);
  if (type < 0) return dw_unsupported(error, "this dtype is not supported");
  if (buf.count < 0 || buf.count > kMostElements)
    return dw_invalid(error, "a count is not between 0 and the most");
  const uint64_t element = buf.dtype.bits / 8u;
  *call = {.sends = shape.has_in,
           .caller_waits = (op->flags & DW_FLAG_CALLER_WAITS) != 0,
           .peer = op->peer,
           .tag = op->tag,
           .type = type,
           .at = static_cast<char*>(buf.data),
           .bytes = static_cast<size_t>(buf.count) * element,
           .deadline_ns = op->deadline_ns,
           .timeout_ns = op->timeout_ns,
           .trace = op->trace};
  return DW_OK;
}

}  // namespace ucx_backend
