// An operation: checked, then run here when the caller waits, or passed to the
// communicator's thread.
#include "backend.h"
#include "failure.h"
#include "run.h"
#include "sdk/fail.h"
#include "sdk/guard.h"
#include "signals.h"

#include <exception>
#include <memory>
#include <utility>

namespace gloo_backend {
int32_t start(dw_comm* comm, EngineOp&& call, dw_work* work, dw_error* error) {
  try {
    if (comm->operation_thread == nullptr) {
      auto thread = std::make_unique<OperationThread>(comm);
      if (int32_t code = thread->start(error)) return code;
      comm->operation_thread = std::move(thread);
    }
    if (call.is_message())
      comm->operation_thread->post(call, work);
    else
      comm->operation_thread->run(std::move(call), work);
    return DW_OK;
  } catch (const std::exception&) {
    return fail_by_exception(comm, error);
  }
}

int32_t query(dw_comm* comm, const dw_op* op, dw_error* error) {
  return dw_sdk::guarded("gloo: an operation", error, [&] {
    EngineOp call;
    return read_call(comm, op, &call, error);
  });
}

namespace {

// Uses nothing that a waiting call, which may run at the same time, uses.
int32_t submit_async(dw_comm* comm, const dw_op* op, dw_work* work,
                     dw_error* error) {
  EngineOp call;
  if (int32_t code = read_call(comm, op, &call, error)) return code;
  if (int32_t code = comm->failure.check(error)) return code;
  if (comm->size == 1 || !call.moves) return run_at_once(comm, call, error);
  const PipeSignalBlocked blocked(comm->guard_pipe_signal);
  return start(comm, std::move(call), work, error);
}

}  // namespace

int32_t run_at_once(dw_comm* comm, const EngineOp& call, dw_error* error) {
  Desk desk;
  const int32_t code = run(comm, desk, call, error);
  return code == DW_OK ? int32_t{DW_DONE} : code;
}

int32_t submit(dw_comm* comm, const dw_op* op, dw_work* work,
               dw_error* error) try {
  if ((op->flags & DW_FLAG_CALLER_WAITS) == 0)
    return submit_async(comm, op, work, error);
  EngineOp& call = comm->call;
  if (int32_t code = read_call(comm, op, &call, error)) return code;
  if (int32_t code = comm->failure.check(error)) return code;
  const bool at_once = comm->size == 1 || !call.moves;
  PipeSignalBlocked blocked(comm->guard_pipe_signal && !at_once);
  if (int32_t code = run(comm, comm->desk, call, error)) return code;
  // An operation that has completed has written successfully on every
  // connection that it used.
  blocked.all_written();
  return DW_DONE;
} catch (...) {
  return dw_sdk::error_of_exception("gloo: an operation", error);
}

}  // namespace gloo_backend
