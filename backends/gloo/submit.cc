// An operation: checked, then run here when the caller waits, else handed to
// the communicator's thread.
#include "backend.h"
#include "run.h"
#include "sdk/fail.h"
#include "signals.h"

#include <exception>
#include <utility>

namespace gloo_backend {
namespace {

// Begins a message in the caller's thread, so that what is posted first is
// matched first and nothing waits behind it.
void post(dw_comm* comm, const Call& call, dw_work* work) {
  Posted message;
  message.sends = call.kind == DW_OP_SEND;
  message.work = work;
  message.buffer = comm->mesh->createUnboundBuffer(
      message.sends ? const_cast<char*>(call.in) : call.out,
      call.in_bytes + call.out_bytes);
  if (message.sends)
    message.buffer->send(call.peer, message_slot(call));
  else
    message.buffer->recv(call.peer, message_slot(call));
  comm->worker->wait_for(std::move(message));
}

int32_t start(dw_comm* comm, const Call& call, dw_work* work, dw_error* error) {
  try {
    if (comm->worker == nullptr) comm->worker = std::make_unique<Worker>(comm);
    if (call.is_message())
      post(comm, call, work);
    else
      comm->worker->run(call, work);
    return DW_OK;
  } catch (const std::exception& exception) {
    return comm->failure.fail(comm, exception.what(), error);
  }
}

}  // namespace

int32_t query(dw_comm* comm, const dw_op* op, dw_error* error) {
  Call call;
  return read_call(comm, op, &call, error);
}

int32_t submit(dw_comm* comm, const dw_op* op, dw_work* work, dw_error* error) {
  Call call;
  if (int32_t code = read_call(comm, op, &call, error)) return code;
  if (int32_t code = comm->failure.check(comm, error)) return code;
  const bool waits = (op->flags & DW_FLAG_CALLER_WAITS) != 0;
  const bool at_once =
      comm->size == 1 || (call.moves_nothing() && !call.is_message());
  PipeSignalBlocked blocked(comm->guard_pipe_signal && !at_once);
  if (!waits && !at_once) return start(comm, call, work, error);
  if (int32_t code = run(comm, call, error)) return code;
  // What has completed was written and answered on every connection it used.
  blocked.all_written();
  return DW_DONE;
}

}  // namespace gloo_backend
