// An all_to_all with counts in which each rank publishes everything in one slot
// and its staging. pairs.cc handles late ranks and longer pieces.
#include "pairs.h"
#include "run.h"
#include "short_step.h"

namespace shm_backend {

using namespace short_step;

namespace {

// With two ranks the cell is in the slot, else in a table in front of the
// staged data.
size_t table_bytes(const Comm& comm) {
  return comm.size == 2 ? 0 : Cell::place(comm.size);
}

// Calls `body` for every other rank; stops and returns false when it returns
// false.
template <class Body>
[[gnu::always_inline]] inline bool for_others(const Comm& comm,
                                              const Body& body) {
  if (comm.size == 2) return body(1 - comm.rank);
  for (int r = 0; r < comm.size; ++r)
    if (r != comm.rank && !body(r)) return false;
  return true;
}

// Bytes that this rank publishes beside the slot; kPairs: not possible now, or
// not in one round. All pieces of a pair have to be short, or empty: then both
// ends count alike the pieces that CMA may move.
size_t shown_to_pairs(const Comm& comm, const EngineOp& call) {
  if (comm.staging != Staging::kLarge) return kPairs;
  const size_t most = std::min(Lending::kMoreThan, comm.pair_part);
  size_t shown = table_bytes(comm);
  const bool is_short = for_others(comm, [&](int r) {
    const size_t gives = call.in_pieces[r].bytes;
    if (!Cell::holds(gives)) shown += whole_lines(gives);
    return gives <= most && call.out_pieces[r].bytes <= most;
  });
  return is_short && shown <= ShortCall::kMost ? shown : kPairs;
}

bool show_pairs(Comm* comm, const EngineOp& call, const ShortCall& how,
                size_t shown, uint64_t ticket) {
  Post* const line = free_line(comm, ticket);
  if (line == nullptr) return false;
  size_t at = 0;
  char* staged = nullptr;
  if (shown != 0) {
    staged = stage(comm, how, shown, true, ticket, &at);
    if (staged == nullptr) return false;
  }
  size_t next = table_bytes(*comm);
  for_others(*comm, [&](int to) {
    const Piece give = call.in_pieces[to];
    auto* const cell = reinterpret_cast<Cell*>(
        next == 0 ? reinterpret_cast<char*>(line->inside)
                  : staged + Cell::place(to));
    cell->gives = give.bytes;
    cell->takes = call.out_pieces[to].bytes;
    if (Cell::holds(give.bytes)) {
      move(cell->inside, give.at, give.bytes);
      return true;
    }
    cell->set({next, 0});
    comm->stage_copy(staged + next, give.at, give.bytes);
    next += whole_lines(give.bytes);
    return true;
  });
  post(comm, line, ticket, at, call.print);
  if (how.meets && shown != 0 && shown <= kMostHandedDown)
    hand_down(staged, shown);
  comm->under_way(call);
  return true;
}

// Takes the piece of another rank. False if that rank is late or the sizes
// differ.
bool take_of_pair(Comm& comm, const EngineOp& call, int from, uint64_t ticket,
                  bool* ahead) {
  const Post* const line = look(comm, from, ticket, call, false, ahead);
  if (line == nullptr) return false;
  const Piece piece = call.out_pieces[from];
  const char* const seen =
      comm.size == 2
          ? reinterpret_cast<const char*>(line->inside)
          : find(comm, from, *line, Cell::place(comm.rank), sizeof(Cell));
  if (seen == nullptr) return false;
  const Cell& cell = *reinterpret_cast<const Cell*>(seen);
  if (cell.gives != piece.bytes || cell.takes != call.in_pieces[from].bytes)
    return false;
  if (Cell::holds(piece.bytes)) {
    move(piece.at, cell.inside, piece.bytes);
    return true;
  }
  const char* const data =
      find(comm, from, *line, cell.staged().at, piece.bytes);
  if (data == nullptr) return false;
  short_step::take(comm, from, piece.at, data, piece.bytes);
  return true;
}

}  // namespace

bool run_short_pairs(Comm* comm, const EngineOp& call, const ShortCall& how) {
  const size_t shown = shown_to_pairs(*comm, call);
  if (shown == kPairs) return false;
  const uint64_t ticket = comm->ticket;
  if (!show_pairs(comm, call, how, shown, ticket)) return false;
  const Piece own = call.in_pieces[comm->rank];
  keep(call.out_pieces[comm->rank].at, own.at, own.bytes);
  bool ahead = true;
  if (!for_others(*comm, [&](int from) {
        return take_of_pair(*comm, call, from, ticket, &ahead);
      }))
    return false;
  end(comm, how, ticket, shown, ahead);
  return true;
}

}  // namespace shm_backend
