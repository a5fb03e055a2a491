// Which operations go from buffer to buffer, and what each rank gives and
// takes.
#include "run.h"
#include "straight.h"

#include <algorithm>

namespace shm_backend {
namespace {

bool is_straight(const Run& run, size_t bytes) {
  return bytes >= run.in_place_from();
}
// Sizes that only a pair knows: what is smaller goes beside the table.
size_t staged_of(const Run& run) {
  if (!run.call.per_rank()) return 0;
  const auto n = static_cast<size_t>(run.size);
  return std::min(run.in_place_from(), run.comm->stage.most() / 2 / n) - 1;
}

bool broadcast(Run& run) {
  const Call& call = run.call;
  if (!is_straight(run, call.out.bytes)) return false;
  run.expect(call.out.bytes);
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
  return true;
}

bool all_gather(Run& run) {
  const Call& call = run.call;
  const size_t longest = call.out_pieces.longest();
  if (!is_straight(run, longest)) return false;
  run.expect(static_cast<size_t>(run.size) * longest);
  Straight move(run, call.per_rank() ? 4 : 1);
  for (int r = 0; r < run.size; ++r) {
    if (r == run.rank) continue;
    if (call.in.bytes != 0) move.give(r, call.in);
    if (call.out_pieces[r].bytes != 0) move.take(r, call.out_pieces[r]);
  }
  move.keep(call.out_pieces[run.rank], call.in);
  if (move.go()) run.finish(!call.per_rank());
  return true;
}

// Small pieces come as they do where nothing goes straight; with sizes that
// only a pair knows in one round, so those have to fit it.
bool gather(Run& run) {
  const Call& call = run.call;
  const size_t from =
      call.per_rank() ? std::min(run.in_place_from(), run.comm->stage.most())
                      : run.in_place_from();
  const auto goes_straight = [from](size_t bytes) { return bytes >= from; };
  if (!call.per_rank() && !goes_straight(call.in.bytes)) return false;
  const bool is_root = run.rank == call.peer;
  const auto print = [&](size_t bytes) {
    return Run::with_size(run.print(), bytes);
  };
  if (!is_root && !goes_straight(call.in.bytes)) {
    run.show(0, call.in.at, call.in.bytes, print(call.in.bytes));
    run.finish(false);
    return true;
  }
  Straight move(run, 4);
  if (is_root) {
    run.expect(static_cast<size_t>(run.size) * call.out_pieces.longest());
    for (int r = 0; r < run.size; ++r)
      if (r != run.rank && goes_straight(call.out_pieces[r].bytes))
        move.take(r, call.out_pieces[r]);
    move.keep(call.out_pieces[run.rank], call.in);
  } else {
    move.give(call.peer, call.in);
  }
  if (!move.go()) return true;
  for (int r = 0; is_root && r < run.size; ++r) {
    const Piece piece = call.out_pieces[r];
    if (r == run.rank || goes_straight(piece.bytes)) continue;
    const char* const there =
        run.look(r, 0, piece.bytes, 0, piece.bytes, print(piece.bytes));
    if (there == nullptr) return true;
    run.take(piece.at, there, piece.bytes);
  }
  run.finish(is_root);
  return true;
}

bool scatter(Run& run) {
  const Call& call = run.call;
  if (!call.per_rank() && !is_straight(run, call.out.bytes)) return false;
  const bool is_root = run.rank == call.peer;
  Straight move(run, 4, staged_of(run));
  if (is_root) {
    for (int r = 0; r < run.size; ++r)
      if (r != run.rank) move.give(r, call.in_pieces[r]);
    move.keep(call.out, call.in_pieces[run.rank]);
  } else {
    move.take(call.peer, call.out);
  }
  if (move.go()) run.finish(false);
  return true;
}

bool all_to_all(Run& run) {
  const Call& call = run.call;
  if (!call.per_rank() && !is_straight(run, call.in_pieces[0].bytes))
    return false;
  if (!call.per_rank())
    run.expect(static_cast<size_t>(run.size) * call.in_pieces[0].bytes);
  Straight move(run, call.per_rank() ? 4 : 1, staged_of(run));
  for (int r = 0; r < run.size; ++r) {
    if (r == run.rank) continue;
    move.expect(r);
    move.give(r, call.in_pieces[r]);
    move.take(r, call.out_pieces[r]);
  }
  move.keep(call.out_pieces[run.rank], call.in_pieces[run.rank]);
  if (move.go()) run.finish(true);
  return true;
}

}  // namespace

bool run_straight(Run& run) {
  switch (run.call.kind) {
    case DW_OP_BROADCAST:
      return broadcast(run);
    case DW_OP_ALL_GATHER:
      return all_gather(run);
    case DW_OP_GATHER:
      return gather(run);
    case DW_OP_SCATTER:
      return scatter(run);
    case DW_OP_ALL_TO_ALL:
      return all_to_all(run);
    default:
      return false;
  }
}

}  // namespace shm_backend
