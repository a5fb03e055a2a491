// Runs a collective: chooses the operation's code and its way.
#include "run.h"
#include "sdk/blocks.h"

namespace shm_backend {
namespace {

void run_reduction(Run& run) {
  // With two ranks only one needs the result, and the other goes on at once.
  if (run.size == 2 && run.call.kind == DW_OP_REDUCE) return run_flat(run);
  run.is_in_place() ? run_direct(run) : run_staged(run);
}

void run_kind(Run& run) {
  if (run.call.blocks != nullptr)
    return run.call.kind == DW_OP_ALL_GATHER ? run_block_gather(run)
                                             : run_blocks(run);
  if (kShapes[run.call.kind].pairwise && run.call.per_rank())
    return run_pairs(run);
  if (run.is_in_place() && run_straight(run)) return;
  switch (run.call.kind) {
    case DW_OP_BARRIER:
      return run_barrier(run);
    case DW_OP_BROADCAST:
      return run_broadcast(run);
    case DW_OP_ALL_REDUCE:
    case DW_OP_REDUCE:
      return run_reduction(run);
    case DW_OP_SCAN:
      return run_flat(run);
    case DW_OP_REDUCE_SCATTER:
      return run.is_in_place() ? run_direct_reduce_scatter(run)
                               : run_reduce_scatter(run);
    case DW_OP_ALL_GATHER:
      return run_all_gather(run);
    case DW_OP_GATHER:
      return run_gather(run);
    case DW_OP_SCATTER:
      return run_scatter(run);
    default:
      return run_all_to_all(run);
  }
}

// Runs an operation of a group with one rank.
void run_alone(Comm* comm, const EngineOp& call) {
  if (call.has_rows) {
    if (call.rows.sums().adds()) return call.rows.sums().add_all(nullptr, 0);
    return call.rows.keep(0, 0, call.in_pieces[0].bytes, copy);
  }
  if (call.blocks != nullptr)
    return dw_sdk::move_block(call.out.at, call.blocks->out[0], call.in.at,
                              call.blocks->in[0], 0, call.out_pieces[0].bytes,
                              copy);
  const bool reduces = kShapes[call.kind].reduces;
  const Piece in = kShapes[call.kind].in_pieces ? call.in_pieces[0] : call.in;
  const Piece out =
      kShapes[call.kind].out_pieces ? call.out_pieces[0] : call.out;
  if (call.kind == DW_OP_BARRIER || out.bytes == 0) return;
  if ((call.flags & DW_FLAG_EXCLUSIVE) != 0) return;
  if (!reduces) return copy(out.at, in.at, out.bytes);
  const int64_t one = 1;
  const void* const terms[] = {in.at};
  comm->host->reduce_kernel(comm->host->self, call.dtype, call.reduce)(
      out.at, terms, 1, out.bytes / call.element,
      call.scale != nullptr ? call.scale : &one);
}

}  // namespace

// Reading the other inputs is the main cost, and two ranks read equally much
// with both algorithms. Shares allow the next chunk to be in progress, and
// halve the work where it counts beside the reading: 16-bit floats.
size_t sliced_from(const Comm& comm, const EngineOp& call) {
  if (comm.size > 2) return comm.tuning.sliced_more;
  const dw_dtype dtype = call.dtype;
  const bool is_half = (dtype.code == 2 || dtype.code == 4) && dtype.bits == 16;
  return is_half ? comm.tuning.sliced_two_halves : comm.tuning.sliced_two;
}

void run_staged(Run& run) {
  run.call.in.bytes < sliced_from(*run.comm, run.call) ? run_flat(run)
                                                       : run_sliced(run);
}

int32_t run(Comm* comm, const EngineOp& call, dw_error* error) {
  if (!call.moves) return DW_OK;
  if (!comm->room.is_open()) {
    run_alone(comm, call);
    return DW_OK;
  }
  comm->under_way(call);
  dw_error why;  // written on failure only
  int32_t code = DW_OK;
  Attempt attempt;
  const size_t shown = shown_by_all(call, comm->size);
  if (comm->staging == Staging::kUnknown && is_for_large_staging(*comm, shown))
    code = agree_on_ways(comm, call, &why);
  if (code == DW_OK && shown > kFirstStaging)
    code = attempt.begin(comm, call, shown, &why);
  if (code == DW_OK) {
    Run run(comm, call, &why);
    if (attempt.is_in_place()) run.go_in_place();
    run_kind(run);
    code = run.code();
    // The state is set first, so that a rank that reads lent memory does not
    // take later data for the operation's.
    if (run.failed() && run.lends()) comm->room.leave(State::kAborted);
    comm->lease.in.end.store(0, std::memory_order_relaxed);
    comm->lease.out.end.store(0, std::memory_order_relaxed);
  }
  attempt.end();
  if (code == DW_OK) [[likely]]
    return DW_OK;
  return comm->failure.fail(why, error);
}

}  // namespace shm_backend
