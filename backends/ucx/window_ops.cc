// Operations on a window. Those on mapped memory are in hostmem/window_ops.h.
#include "hostmem/window_ops.h"

#include "backend.h"
#include "window.h"

namespace ucx_backend {

int32_t Window::check(dw_error* error) {
  if (int32_t code = comm->failure.check(error)) return code;
  return failure.check(error);
}

int32_t Window::move_far(WindowPart& part, const dw_op& op, uint64_t bytes,
                         dw_work* work, dw_error* error) {
  if (bytes == 0 || op.kind == DW_OP_PUT || op.kind == DW_OP_GET)
    return run_far_move(*this, part, op, bytes, work, error);
  return dw_hostmem::done(run_far_atomic(*this, part, op, error));
}

// A flush serves as a fence, because UCX's own fence does not order several
// paths before 1.16.
int32_t Window::order_far(const dw_op& op, dw_error* error) {
  if (!has_worker) [[likely]]
    return DW_OK;
  return flush_far(*this, op, op.peer, error);
}

int32_t Window::before_signal(const WindowPart& part, const dw_op& op,
                              dw_error* error) {
  if (part.is_flushed()) [[likely]]
    return DW_OK;
  return flush_far(*this, op, op.peer, error);
}

bool Window::drive() {
  if (!has_worker) return false;
  Worker::Hold hold(worker, std::try_to_lock);
  if (!hold.owns()) return false;
  worker.progress();
  return true;
}

// The window's thread takes over: it receives the messages of ranks that cannot
// ring, and rings.
void Window::before_sleep() {
  if (thread.started()) thread.take_over();
}

int32_t submit_to_window(Comm* comm, const dw_op* given, dw_work* work,
                         dw_error* error) {
  return dw_hostmem::submit_window_op<Window>(comm, given, work, error);
}

int32_t query_window(const Comm* comm, const dw_op* given, dw_error* error) {
  dw_op space;
  const dw_op* op;
  return dw_hostmem::query_window_op<Window>(comm, given, &space, &op, error);
}

}  // namespace ucx_backend
