// Operations on a window.
#include "backend.h"
#include "sdk/atomics.h"
#include "sdk/fail.h"
#include "sdk/read_op.h"
#include "window.h"

namespace ucx_backend {
namespace {

int32_t done(int32_t code) { return code == DW_OK ? int32_t{DW_DONE} : code; }

uint64_t bytes_of(const dw_op& op) {
  const bool by_out = op.kind == DW_OP_GET || op.kind == DW_OP_COMPARE_SWAP;
  const dw_buf& buffer = by_out ? op.out : op.in;
  return static_cast<uint64_t>(buffer.count) *
         (static_cast<uint64_t>(buffer.dtype.bits) / 8);
}

int32_t move_mapped(const Window& window, const WindowPart& part,
                    const dw_op& op, uint64_t bytes, dw_error* error) {
  if (const uint32_t closed = part.head->closed.load(std::memory_order_relaxed))
      [[unlikely]]
    return fail_closed(closed, op.peer, error);
  char* const at = part.data + op.window_offset;
  if (op.kind == DW_OP_PUT) {
    if (bytes != 0) __builtin_memmove(at, op.in.data, bytes);
  } else if (op.kind == DW_OP_GET) {
    if (bytes != 0) __builtin_memmove(op.out.data, at, bytes);
  } else {
    return done(dw_sdk::run_atomic(*window.comm->host, op, at, error));
  }
  return DW_DONE;
}

int32_t move(Window& window, WindowPart& part, const dw_op& op, dw_work* work,
             dw_error* error) {
  const uint64_t bytes = bytes_of(op);
  if (op.window_offset > part.bytes || bytes > part.bytes - op.window_offset)
    return dw_invalid(error, "ucx: outside of the target's part");
  if (part.data != nullptr || bytes == 0) [[likely]]
    return part.head != nullptr
               ? move_mapped(window, part, op, bytes, error)
               : move_far(window, part, op, bytes, work, error);
  if (op.kind == DW_OP_PUT || op.kind == DW_OP_GET)
    return move_far(window, part, op, bytes, work, error);
  return done(run_far_atomic(window, part, op, error));
}

int32_t order(Window& window, const dw_op& op, dw_error* error) {
  window.fence.fetch_add(0, std::memory_order_seq_cst);
  if (!window.has_worker) [[likely]]
    return DW_DONE;
  // A fence, too: UCX's own does not order over several paths before 1.16.
  return done(flush_far(window, op, op.peer, error));
}

int32_t check_op(const Comm* comm, const dw_op& op, dw_error* error) {
  const uint32_t known =
      DW_FLAG_CALLER_WAITS |
      (op.kind == DW_OP_PUT ? uint32_t{DW_FLAG_WITH_SIGNAL} : 0);
  if ((op.flags & ~known) != 0)
    return dw_unsupported(error, "ucx: a flag is not supported");
  if (op.next != nullptr && dw_check_extensions(op.next) != DW_OK)
    return dw_unsupported(error, "ucx: no extension is supported");
  if (op.window == nullptr || Window::of(op.window)->comm != comm)
    return dw_invalid(error, "ucx: the window is of another communicator");
  return DW_OK;
}

int32_t read_op(const Comm* comm, const dw_op* given, dw_op* space,
                const dw_op** op, dw_error* error) {
  if (int32_t code = dw_read_op(space, op, given))
    return dw_fail(error, code, DW_REASON_INVALID_ARGUMENT, -1, 0,
                   "the operation has a size or a field that is not known");
  return check_op(comm, **op, error);
}

}  // namespace

int32_t submit_to_window(Comm* comm, const dw_op* given, dw_work* work,
                         dw_error* error) {
  dw_op space;
  const dw_op* op;
  if (int32_t code = read_op(comm, given, &space, &op, error)) return code;
  Window& window = *Window::of(op->window);
  if (int32_t code = window.check(error)) return code;
  if (op->kind == DW_OP_WAIT_SIGNAL) return wait_signal(window, *op, error);
  const bool orders = op->kind == DW_OP_FLUSH || op->kind == DW_OP_FENCE;
  if (op->peer < (orders ? -1 : 0) || op->peer >= comm->size)
    return dw_invalid(error, "ucx: there is no such rank");
  if (orders) return order(window, *op, error);
  WindowPart& part = window.parts[static_cast<size_t>(op->peer)];
  if (op->kind == DW_OP_SIGNAL) {
    if (const uint32_t closed = part.closed().load(std::memory_order_seq_cst))
      return fail_closed(closed, op->peer, error);
    return done(raise(window, part, *op, error));
  }
  if ((op->flags & DW_FLAG_WITH_SIGNAL) == 0) [[likely]]
    return move(window, part, *op, work, error);
  if (!has_slot(window, *op))
    return dw_invalid(error, "ucx: there is no such signal");
  // The signal follows the data, so that its caller waits for them.
  const int32_t code = move(window, part, *op, nullptr, error);
  return code == DW_DONE ? done(raise(window, part, *op, error)) : code;
}

int32_t query_window(const Comm* comm, const dw_op* given, dw_error* error) {
  dw_op space;
  const dw_op* op;
  return read_op(comm, given, &space, &op, error);
}

}  // namespace ucx_backend
