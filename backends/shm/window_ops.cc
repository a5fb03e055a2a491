// Operations on a window. All end inside their call.
#include "hostmem/window_ops.h"

#include "backend.h"
#include "sdk/fail.h"
#include "wait.h"
#include "window.h"

namespace shm_backend {
namespace {

int32_t closed_error(const WindowPart& part, int peer, dw_error* error) {
  const uint32_t closed = part.closed().load(std::memory_order_seq_cst);
  if (closed == 0) return DW_OK;
  return dw_hostmem::fail_closed("shm", closed, peer, error);
}

// Moves data to or from memory that cannot be mapped. Ranks of one process use
// the kernel too: an address that does not exist any more is an error and no
// crash.
[[gnu::noinline]] int32_t move_by_kernel(const Comm* comm,
                                         const WindowPart& part,
                                         const dw_op& op, uint64_t bytes,
                                         dw_error* error) {
  if (bytes == 0) return closed_error(part, op.peer, error);
  const dw_hostmem::Inside inside(part, comm->rank);
  if (int32_t code = closed_error(part, op.peer, error)) return code;
  const uint64_t at = part.address + op.window_offset;
  if (op.peer == comm->rank) {
    auto* const own = reinterpret_cast<char*>(static_cast<uintptr_t>(at));
    if (op.kind == DW_OP_PUT)
      __builtin_memmove(own, op.in.data, bytes);
    else
      __builtin_memmove(op.out.data, own, bytes);
    return DW_OK;
  }
  const Reach::Got got = op.kind == DW_OP_PUT
                             ? part.reach.write(at, op.in.data, bytes)
                             : part.reach.read(op.out.data, at, bytes);
  if (got == Reach::Got::kAll) return DW_OK;
  if (got == Reach::Got::kGone)
    return dw_fail(error, DW_UNAVAILABLE, DW_REASON_PEER_LOST, op.peer, 0,
                   "shm: the target has died: its process ended");
  return dw_fail(error, DW_FAILED_PRECONDITION, DW_REASON_BACKEND_FAILED,
                 op.peer, 0,
                 "shm: the target's memory is not there any more: it was "
                 "freed before the window's end");
}

// A wait for a signal needs no single rank.
class NoneAwaited final : public Condition {
 public:
  bool holds() override { return false; }
  bool awaits(int /*rank*/) override { return false; }
};

}  // namespace

int32_t Window::check(dw_error* error) { return comm->failure.check(error); }

int32_t Window::move_far(WindowPart& part, const dw_op& op, uint64_t bytes,
                         dw_work* /*work*/, dw_error* error) {
  if (op.kind != DW_OP_PUT && op.kind != DW_OP_GET)
    return dw_unsupported(error,
                          "shm: atomics need memory of the window or of "
                          "get_mem_allocator; the target brought its own");
  return dw_hostmem::done(move_by_kernel(comm, part, op, bytes, error));
}

int32_t Window::look_for_lost(dw_error* error) {
  NoneAwaited none;
  return shm_backend::look_for_lost(comm, none, error);
}

int32_t submit_to_window(Comm* comm, const dw_op* given, dw_error* error) {
  return dw_hostmem::submit_window_op<Window>(comm, given, nullptr, error);
}

int32_t query_window(const Comm* comm, const dw_op* given, dw_error* error) {
  dw_op space;
  const dw_op* op;
  return dw_hostmem::query_window_op<Window>(comm, given, &space, &op, error);
}

}  // namespace shm_backend
