// An operation: checked, then run here when the caller waits, else handed to
// the communicator's thread.
#include "backend.h"
#include "run.h"
#include "sdk/fail.h"
#include "signals.h"

#include <exception>
#include <utility>

namespace gloo_backend {
void begin_message(Lane& lane, const Call& call) {
  const Piece piece = call.kind == DW_OP_SEND ? call.in : call.out;
  const uint64_t slot = message_slot(call.tag, piece.bytes);
  if (call.kind == DW_OP_SEND)
    lane.send(piece.at, piece.bytes, slot);
  else
    lane.receive(piece.at, piece.bytes, slot);
}

int32_t start(dw_comm* comm, Call&& call, dw_work* work, dw_error* error) {
  try {
    if (comm->worker == nullptr) comm->worker = std::make_unique<Worker>(comm);
    if (call.is_message())
      comm->worker->post(call, work);
    else
      comm->worker->run(std::move(call), work);
    return DW_OK;
  } catch (const std::exception& exception) {
    return comm->failure.fail(comm, exception.what(), error);
  }
}

int32_t query(dw_comm* comm, const dw_op* op, dw_error* error) {
  Call call;
  return read_call(comm, op, &call, error);
}

namespace {

// Nothing here is used by a call that waits, which may be inside.
int32_t submit_async(dw_comm* comm, const dw_op* op, dw_work* work,
                     dw_error* error) {
  Call call;
  if (int32_t code = read_call(comm, op, &call, error)) return code;
  if (int32_t code = comm->failure.check(comm, error)) return code;
  if (comm->size == 1 || !call.moves) return run_at_once(comm, call, error);
  const PipeSignalBlocked blocked(comm->guard_pipe_signal);
  return start(comm, std::move(call), work, error);
}

}  // namespace

int32_t run_at_once(dw_comm* comm, const Call& call, dw_error* error) {
  Desk desk;
  const int32_t code = run(comm, desk, call, error);
  return code == DW_OK ? int32_t{DW_DONE} : code;
}

int32_t submit(dw_comm* comm, const dw_op* op, dw_work* work, dw_error* error) {
  if ((op->flags & DW_FLAG_CALLER_WAITS) == 0)
    return submit_async(comm, op, work, error);
  Call& call = comm->call;
  if (int32_t code = read_call(comm, op, &call, error)) return code;
  if (int32_t code = comm->failure.check(comm, error)) return code;
  const bool at_once = comm->size == 1 || !call.moves;
  PipeSignalBlocked blocked(comm->guard_pipe_signal && !at_once);
  if (int32_t code = run(comm, comm->desk, call, error)) return code;
  // What has completed was written and answered on every connection it used.
  blocked.all_written();
  return DW_DONE;
}

}  // namespace gloo_backend
