#include "run.h"

#include "backend.h"
#include "sdk/fail.h"

#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/alltoall.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>

#include <cstring>
#include <exception>

namespace gloo_backend {
namespace {

// Gloo only reads inputs but takes them as writable; T gives it the size of an
// element and nothing else.
template <typename T>
T* input(const Call& call) {
  return const_cast<T*>(reinterpret_cast<const T*>(call.in));
}

template <typename T>
T* output(const Call& call) {
  return reinterpret_cast<T*>(call.out);
}

template <typename T, typename Options>
void set_buffers(Options& options, const Call& call, bool with_input) {
  if (with_input) options.setInput(input<T>(call), call.in_bytes / sizeof(T));
  options.setOutput(output<T>(call), call.out_bytes / sizeof(T));
  options.setTag(collective_tag(call));
}

template <typename T>
void all_reduce(dw_comm* comm, const Call& call) {
  gloo::AllreduceOptions options(comm->mesh);
  set_buffers<T>(options, call, call.in != call.out);
  options.setAlgorithm(gloo::AllreduceOptions::Algorithm::RING);
  options.setReduceFunction(
      comm->host->reduce_kernel(comm->host->self, call.dtype, call.reduce));
  gloo::allreduce(options);
}

template <typename T>
int32_t collective(dw_comm* comm, const Call& call, dw_error* error) {
  const size_t own = static_cast<size_t>(comm->rank);
  switch (call.kind) {
    case DW_OP_BROADCAST: {
      gloo::BroadcastOptions options(comm->mesh);
      set_buffers<T>(options, call,
                     call.peer == comm->rank && call.in != call.out);
      options.setRoot(call.peer);
      gloo::broadcast(options);
      return DW_OK;
    }
    case DW_OP_ALL_REDUCE:
      all_reduce<T>(comm, call);
      return DW_OK;
    case DW_OP_ALL_GATHER: {
      gloo::AllgatherOptions options(comm->mesh);
      set_buffers<T>(options, call, call.in != call.out + own * call.in_bytes);
      gloo::allgather(options);
      return DW_OK;
    }
    case DW_OP_ALL_TO_ALL: {
      gloo::AlltoallOptions options(comm->mesh);
      set_buffers<T>(options, call, true);
      gloo::alltoall(options);
      return DW_OK;
    }
    default:
      return reduce_scatter(comm, call, error);
  }
}

void barrier(dw_comm* comm, const Call& call) {
  gloo::BarrierOptions options(comm->mesh);
  options.setTag(collective_tag(call));
  gloo::barrier(options);
}

void message(dw_comm* comm, const Call& call) {
  const bool sends = call.kind == DW_OP_SEND;
  char* const data = sends ? input<char>(call) : call.out;
  const auto buffer =
      comm->mesh->createUnboundBuffer(data, call.in_bytes + call.out_bytes);
  if (sends) {
    buffer->send(call.peer, message_slot(call));
    buffer->waitSend();
  } else {
    buffer->recv(call.peer, message_slot(call));
    buffer->waitRecv();
  }
}

int32_t run_by_gloo(dw_comm* comm, const Call& call, dw_error* error) {
  if (call.kind == DW_OP_BARRIER) {
    barrier(comm, call);
    return DW_OK;
  }
  if (call.is_message()) {
    message(comm, call);
    return DW_OK;
  }
  return call.element == 4 ? collective<uint32_t>(comm, call, error)
                           : collective<uint64_t>(comm, call, error);
}

}  // namespace

int32_t run(dw_comm* comm, const Call& call, dw_error* error) {
  if (comm->size == 1) {
    if (call.in != call.out && call.out_bytes != 0)
      std::memcpy(call.out, call.in, call.out_bytes);
    return DW_OK;
  }
  if (call.moves_nothing() && !call.is_message()) return DW_OK;
  try {
    return run_by_gloo(comm, call, error);
  } catch (const std::exception& exception) {
    return comm->failure.fail(comm, exception.what(), error);
  }
}

}  // namespace gloo_backend
