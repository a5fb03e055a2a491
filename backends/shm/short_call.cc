#include "short_call.h"

#include "run.h"
#include "short_step.h"

namespace shm_backend {

using namespace short_step;

namespace {

// Whose data this rank takes.
void find_sources(const Comm& comm, const Call& call, ShortCall* how) {
  const bool is_root = call.peer == comm.rank;
  how->shows = true;
  switch (call.kind) {
    case DW_OP_BROADCAST:
    case DW_OP_SCATTER:
      how->shows = is_root;
      how->first = call.peer;
      how->end = call.peer + 1;
      return;
    case DW_OP_REDUCE:
    case DW_OP_GATHER:
      how->shows = !is_root;
      how->end = is_root ? comm.size : 0;
      return;
    case DW_OP_SCAN:
      how->shows = comm.rank < comm.size - 1;
      how->end = comm.rank + ((call.flags & DW_FLAG_EXCLUSIVE) != 0 ? 0 : 1);
      return;
    default:
      how->end = comm.size;
  }
}

// Each rank shows a part for each one.
bool has_parts(const Call& call) {
  return call.kind == DW_OP_SCATTER || call.kind == DW_OP_ALL_TO_ALL ||
         call.kind == DW_OP_REDUCE_SCATTER;
}

size_t bytes_of_rank(const Call& call) {
  switch (call.kind) {
    case DW_OP_BARRIER:
      return 0;
    case DW_OP_BROADCAST:
    case DW_OP_SCATTER:
    case DW_OP_REDUCE_SCATTER:
      return call.out.bytes;
    case DW_OP_ALL_TO_ALL:
      return call.in_pieces[0].bytes;
    default:
      return call.in.bytes;
  }
}

// All but the part that is this rank's own.
void stage_parts(const Comm& comm, char* to, const char* own,
                 const ShortCall& how) {
  for (int r = 0; r < comm.size; ++r) {
    const size_t at = static_cast<size_t>(r) * how.bytes;
    if (r != comm.rank) comm.stage_copy(to + at, own + at, how.bytes);
  }
}

bool show(Comm* comm, const char* own, const ShortCall& how, uint64_t ticket,
          uint32_t print) {
  Post* const line = free_line(comm, ticket);
  if (line == nullptr) return false;
  size_t at = 0;
  char* staged = nullptr;
  if (how.shown <= kInside) {
    move(line->inside, own, how.shown);
  } else {
    // What can be read where it lies is not copied.
    if (how.reduce != nullptr &&
        comm->room.arena()->heap().place_of(own, how.shown) != 0) [[unlikely]]
      return false;
    staged = stage(comm, how.shown, begins_page(how, how.shown), ticket, &at);
    if (staged == nullptr) return false;
    if (how.shown == how.bytes)
      comm->stage_copy(staged, own, how.shown);
    else
      stage_parts(*comm, staged, own, how);
  }
  post(comm, line, ticket, at, print);
  // While it waits for the others anyway.
  if (how.meets && how.shown > kInside && how.shown <= kMostHandedDown)
    hand_down(staged, how.shown);
  if (how.waits) comm->under_way();
  return true;
}

}  // namespace

ShortCall ShortCall::of(const Comm& comm, const Call& call) {
  ShortCall how;
  // Where ranks share processors, those that only give are ahead by all lines
  // at once, and then take turns with who takes.
  if (!comm.room.is_open() || !call.moves || call.is_message() ||
      call.scale != nullptr || (comm.crowded && kShapes[call.kind].root_takes))
    return how;
  if (call.per_rank()) {
    how.fits = how.pairs = call.kind == DW_OP_ALL_TO_ALL;
    how.shows = how.looks_at_all = true;
    how.meets = !comm.crowded;
    how.end = comm.size;
    return how;
  }
  const size_t shown = shown_by_all(call, comm.size);
  if (shown > kMost || shown >= tried_from(comm, call) ||
      (kShapes[call.kind].reduces && shown >= sliced_from(comm, call)))
    return how;
  const size_t each = bytes_of_rank(call);
  how.fits = true;
  find_sources(comm, call, &how);
  how.looks_at_all = how.end - how.first == comm.size;
  how.waits = how.end - how.first > 1 ||
              (how.end - how.first == 1 && how.first != comm.rank);
  how.meets = how.shows && how.looks_at_all && !comm.crowded;
  how.lists_in = kShapes[call.kind].in_pieces;
  how.lists_out = kShapes[call.kind].out_pieces;
  how.shown = static_cast<uint32_t>(shown);
  how.bytes = static_cast<uint32_t>(each);
  if (has_parts(call))
    how.at = static_cast<uint32_t>(static_cast<size_t>(comm.rank) * each);
  how.count = each / call.element;
  if (kShapes[call.kind].reduces)
    how.reduce =
        comm.host->reduce_kernel(comm.host->self, call.dtype, call.reduce);
  how.keeps =
      how.shows && how.looks_at_all && how.reduce == nullptr && how.bytes != 0;
  return how;
}

bool run_short(Comm* comm, const Call& call, const ShortCall& how) {
  if (how.pairs) return run_short_pairs(comm, call, how);
  // `run` finds out first what staging there is.
  if (comm->staging == Staging::kUnknown &&
      is_for_large_staging(*comm, how.shown)) [[unlikely]]
    return false;
  // In what is small it may need more rounds.
  if (how.shown > kFirstStaging && (comm->staging != Staging::kLarge ||
                                    comm->stage.most() < 2 * ShortCall::kMost))
    return false;
  const uint64_t ticket = comm->ticket;
  const char* const own = how.lists_in ? call.in_pieces[0].at : call.in.at;
  if (how.shows && !show(comm, own, how, ticket, call.print)) return false;
  char* const out = how.lists_out ? call.out_pieces[0].at : call.out.at;
  const size_t stride = how.lists_out ? how.bytes : 0;
  if (how.keeps)
    move(out + static_cast<size_t>(comm->rank) * stride, own + how.at,
         how.bytes);
  const char* data[kMostRanks];
  bool ahead = !how.shows;
  const bool may_slip = !how.shows && how.shown > kInside;
  for (int r = how.first; r < how.end; ++r) {
    const char* from = own;
    if (r != comm->rank) {
      const Post* const line =
          look(*comm, r, ticket, call.print, may_slip, &ahead);
      if (line == nullptr) return false;
      from = how.shown <= kInside ? reinterpret_cast<const char*>(line->inside)
                                  : find(*comm, r, *line, 0, how.shown);
      if (from == nullptr) return false;
    }
    data[r] = from + how.at;
  }

  if (how.reduce != nullptr) {
    const int64_t ranks = comm->size;
    if (how.end != 0)
      how.reduce(out, reinterpret_cast<const void* const*>(data),
                 static_cast<uint64_t>(how.end), how.count, &ranks);
  } else if (how.bytes != 0) {
    for (int r = how.first; r < how.end; ++r)
      if (r != comm->rank || !how.keeps)
        move(out + static_cast<size_t>(r) * stride, data[r], how.bytes);
  }

  end(comm, how, ticket, how.shown, ahead);
  return true;
}

}  // namespace shm_backend
