// Reads and writes of parts that are not mapped, over the window's worker.
#include "backend.h"
#include "sdk/fail.h"
#include "wait.h"
#include "window.h"

#include <deque>
#include <utility>

namespace ucx_backend {
namespace {

EngineOp call_of(const dw_op& op, int peer, void* at, uint64_t bytes) {
  EngineOp call;
  call.sends = call.remote = true;
  call.peer = peer;
  call.at = static_cast<char*>(at);
  call.bytes = bytes;
  call.deadline_ns = op.deadline_ns;
  call.timeout_ns = op.timeout_ns;
  return call;
}

// Precondition: the worker is held. Makes the key to a peer's memory on first
// use.
int32_t find_access(Window& window, WindowPart& part, int peer,
                    dw_error* error) {
  if (part.access != nullptr) return DW_OK;
  if (int32_t code = window.check(error)) return code;
  part.access = window.worker.unpack(peer, part.key);
  if (part.access != nullptr) return DW_OK;
  return dw_fail(error, DW_UNAVAILABLE, DW_REASON_BACKEND_FAILED, peer, 0,
                 "ucx: the target's memory cannot be reached");
}

// DW_OK: `work` will be completed.
int32_t start_access(Window& window, WindowPart& part, const EngineOp& call,
                     Worker::Access access, dw_work* work, dw_error* error) {
  auto transfer = std::make_unique<Transfer>(call, work);
  Worker::Hold hold(window.worker);
  if (int32_t code = find_access(window, part, call.peer, error)) return code;
  access.key = part.access;
  if (window.worker.begin_with_work(transfer.get(), access)) return DW_DONE;
  transfer.release();
  return DW_OK;
}

}  // namespace

int32_t result_of(Window& window, const Transfer& transfer, dw_error* error) {
  if (transfer.state.load(std::memory_order_acquire) == Transfer::State::kDone)
    return DW_OK;
  if (int32_t code = window.comm->failure.check(error)) return code;
  return window.failure.first(error);
}

int32_t run_access(Window& window, WindowPart& part, const EngineOp& call,
                   Worker::Access access, dw_error* error) {
  Transfer transfer(call);
  transfer.ended = &part.closed();
  {
    Worker::Hold hold(window.worker);
    if (access.what != Worker::Access::What::kTell)
      if (int32_t code = find_access(window, part, call.peer, error))
        return code;
    access.key = part.access;
    window.worker.begin(&transfer, access);
    if (transfer.is_open())
      wait_for(window.comm, window.worker, hold, transfer);
  }
  return result_of(window, transfer, error);
}

int32_t run_far_move(Window& window, WindowPart& part, const dw_op& op,
                     uint64_t bytes, dw_work* work, dw_error* error) {
  const bool puts = op.kind == DW_OP_PUT;
  const dw_hostmem::Inside inside(part, window.comm->rank);
  if (const uint32_t closed = part.closed().load(std::memory_order_seq_cst))
    return dw_hostmem::fail_closed(window.backend, closed, op.peer, error);
  if (bytes == 0) return DW_DONE;
  Worker::Access access;
  access.what = puts ? Worker::Access::What::kPut : Worker::Access::What::kGet;
  access.at = part.address + op.window_offset;
  const EngineOp call =
      call_of(op, op.peer, puts ? op.in.data : op.out.data, bytes);
  if (puts) part.written.fetch_add(1, std::memory_order_release);
  // A thread that may be inside of the owner's memory waits until it has left.
  if (work != nullptr && part.writers == nullptr)
    return start_access(window, part, call, access, work, error);
  const int32_t code = run_access(window, part, call, access, error);
  return code == DW_OK ? int32_t{DW_DONE} : code;
}

int32_t flush_far(Window& window, const dw_op& op, int peer, dw_error* error) {
  struct Flush {
    Flush(const EngineOp& call, WindowPart* of)
        : transfer(call),
          part(of),
          upto(of->written.load(std::memory_order_acquire)) {
      transfer.ended = &part->closed();
    }
    Transfer transfer;
    WindowPart* part;
    uint64_t upto;
  };
  std::deque<Flush> flushes;
  Worker::Access access;
  access.what = Worker::Access::What::kFlush;
  const int first = peer < 0 ? 0 : peer;
  const int last = peer < 0 ? window.comm->size - 1 : peer;
  Worker::Hold hold(window.worker);
  for (int rank = first; rank <= last; ++rank) {
    WindowPart& part = window.parts[static_cast<size_t>(rank)];
    if (part.is_flushed()) continue;
    flushes.emplace_back(call_of(op, rank, nullptr, 0), &part);
    window.worker.begin(&flushes.back().transfer, access);
  }
  int32_t code = DW_OK;
  for (Flush& flush : flushes) {
    if (flush.transfer.is_open())
      wait_for(window.comm, window.worker, hold, flush.transfer);
    if (int32_t failed = result_of(window, flush.transfer, error)) {
      if (code == DW_OK) code = failed;
      continue;
    }
    uint64_t before = flush.part->flushed.load(std::memory_order_relaxed);
    while (before < flush.upto &&
           !flush.part->flushed.compare_exchange_weak(
               before, flush.upto, std::memory_order_release))
      continue;
  }
  return code;
}

}  // namespace ucx_backend
