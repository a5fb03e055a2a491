// The operations that CMA can move from buffer to buffer: what each rank gives
// and takes, where all ranks know all sizes.
#include "run.h"
#include "straight.h"

#include <algorithm>

namespace shm_backend {
namespace {

void broadcast(Run& run) {
  const EngineOp& call = run.call;
  run.expect(call.out.bytes, 0);
  Straight move(run, 2);
  const bool is_root = run.rank == call.peer;
  if (is_root) {
    for (int r = 0; r < run.size; ++r)
      if (r != run.rank) move.give(r, {call.in.at, call.out.bytes});
    move.keep(call.out, call.in);
  } else {
    move.take(call.peer, call.out);
  }
  if (move.go()) run.finish(is_root);
}

void all_gather(Run& run) {
  const EngineOp& call = run.call;
  const size_t longest = call.out_pieces.longest();
  run.expect(static_cast<size_t>(run.size) * longest, longest);
  Straight move(run, call.per_rank() ? 4 : 1);
  for (int r = 0; r < run.size; ++r) {
    if (r == run.rank) continue;
    if (call.in.bytes != 0) move.give(r, call.in);
    if (call.out_pieces[r].bytes != 0) move.take(r, call.out_pieces[r]);
  }
  move.keep(call.out_pieces[run.rank], call.in);
  if (move.go()) run.finish(!call.per_rank());
}

void gather(Run& run) {
  const EngineOp& call = run.call;
  const bool is_root = run.rank == call.peer;
  Straight move(run, 4);
  if (is_root) {
    run.expect(static_cast<size_t>(run.size) * call.in.bytes, call.in.bytes);
    for (int r = 0; r < run.size; ++r)
      if (r != run.rank) move.take(r, call.out_pieces[r]);
    move.keep(call.out_pieces[run.rank], call.in);
  } else {
    move.give(call.peer, call.in);
  }
  if (move.go()) run.finish(is_root);
}

void scatter(Run& run) {
  const EngineOp& call = run.call;
  const bool is_root = run.rank == call.peer;
  Straight move(run, 4);
  if (is_root) {
    for (int r = 0; r < run.size; ++r)
      if (r != run.rank) move.give(r, call.in_pieces[r]);
    move.keep(call.out, call.in_pieces[run.rank]);
  } else {
    move.take(call.peer, call.out);
  }
  if (move.go()) run.finish(false);
}

void all_to_all(Run& run) {
  const EngineOp& call = run.call;
  const size_t each = call.in_pieces[0].bytes;
  const size_t all = static_cast<size_t>(run.size) * each;
  run.expect(all, all);
  Straight move(run, 1);
  for (int r = 0; r < run.size; ++r) {
    if (r == run.rank) continue;
    move.give(r, call.in_pieces[r]);
    move.take(r, call.out_pieces[r]);
  }
  move.keep(call.out_pieces[run.rank], call.in_pieces[run.rank]);
  if (move.go()) run.finish(true);
}

}  // namespace

bool run_straight(Run& run) {
  switch (run.call.kind) {
    case DW_OP_BROADCAST:
      broadcast(run);
      return true;
    case DW_OP_ALL_GATHER:
      all_gather(run);
      return true;
    case DW_OP_GATHER:
      gather(run);
      return true;
    case DW_OP_SCATTER:
      scatter(run);
      return true;
    case DW_OP_ALL_TO_ALL:
      all_to_all(run);
      return true;
    default:
      return false;
  }
}

}  // namespace shm_backend
