#include "short_call.h"

#include "run.h"
#include "short_step.h"

namespace shm_backend {

using namespace short_step;

namespace {

// Finds the ranks whose data this rank reads.
void find_sources(const Comm& comm, const EngineOp& call, ShortCall* how) {
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

// Whether each rank publishes a part for each other rank.
bool has_parts(const EngineOp& call) {
  return call.kind == DW_OP_SCATTER || call.kind == DW_OP_ALL_TO_ALL ||
         call.kind == DW_OP_REDUCE_SCATTER;
}

size_t bytes_of_rank(const EngineOp& call) {
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

// Stages all parts but this rank's own.
void stage_parts(const Comm& comm, char* to, const char* own,
                 const ShortCall& how) {
  for (int r = 0; r < comm.size; ++r) {
    const size_t at = static_cast<size_t>(r) * how.bytes;
    if (r != comm.rank) comm.stage_copy(to + at, own + at, how.bytes);
  }
}

// The role of a rank in a call.
enum class Role {
  kGives,   // publishes data and waits for nobody
  kTakes,   // publishes nothing
  kTrades,  // publishes and reads
};

template <bool kStaged>
[[gnu::always_inline]] inline bool show(Comm* comm, const char* own,
                                        const ShortCall& how, size_t shown,
                                        uint64_t ticket, uint32_t print) {
  Post* const line = free_line(comm, ticket);
  if (line == nullptr) return false;
  if constexpr (!kStaged) {
    move(line->inside, own, shown);
    post(comm, line, ticket, 0, print);
    return true;
  }
  // Data that others can read in place are not copied.
  if (how.reduce != nullptr &&
      comm->room.arena()->heap().place_of(own, shown) != 0) [[unlikely]]
    return false;
  size_t at = 0;
  const bool parts = shown != how.bytes;
  char* const staged = stage(comm, how, shown, parts, ticket, &at);
  if (staged == nullptr) return false;
  if (parts)
    stage_parts(*comm, staged, own, how);
  else
    comm->stage_copy(staged, own, shown);
  post(comm, line, ticket, at, print);
  // The rank waits for the others anyway.
  if (how.meets && shown <= kMostHandedDown) hand_down(staged, shown);
  return true;
}

// `run` first finds out the size of the staging; small staging may need more
// rounds.
inline bool has_staging_for(const Comm& comm, size_t shown) {
  if (comm.staging == Staging::kUnknown && is_for_large_staging(comm, shown))
      [[unlikely]]
    return false;
  return shown <= kFirstStaging || (comm.staging == Staging::kLarge &&
                                    comm.stage.most() >= 2 * ShortCall::kMost);
}

// A ShortCall::Body. The template arguments are equal for calls alike: whether
// data are staged or in the slot, and whether they are reduced or moved.
template <bool kStaged, bool kReduces, Role kRole>
bool run_short(Comm* comm, const EngineOp& call, const ShortCall& how) {
  const size_t shown = how.shown, bytes = how.bytes;
  if (kStaged != (shown > kInside)) __builtin_unreachable();
  if (kStaged && !has_staging_for(*comm, shown)) return false;
  const uint64_t ticket = comm->ticket;
  const char* const own = how.lists_in ? call.in_pieces[0].at : call.in.at;
  if (kRole != Role::kTakes &&
      !show<kStaged>(comm, own, how, shown, ticket, call.print))
    return false;
  if (kRole == Role::kTrades) comm->under_way(call);
  char* const out = how.lists_out ? call.out_pieces[0].at : call.out.at;
  const size_t stride = how.lists_out ? bytes : 0;
  const auto keep_own = [&] {
    char* const to = out + static_cast<size_t>(comm->rank) * stride;
    kStaged ? keep(to, own + how.at, bytes) : move(to, own + how.at, bytes);
  };
  if (kRole == Role::kTrades && how.keeps) {
    if constexpr (kStaged) fetch_beside(*comm, how);
    keep_own();
  }

  bool ahead = kRole == Role::kTakes;
  // Data of rank `r` for this rank; NULL: the rank is late, or its call
  // differs.
  const auto shown_by = [&](int r) -> const char* {
    constexpr bool kMaySlip = kStaged && kRole == Role::kTakes;
    const Post* const line = look(*comm, r, ticket, call, kMaySlip, &ahead);
    if (line == nullptr) return nullptr;
    const char* const from = kStaged
                                 ? find(*comm, r, *line, 0, shown)
                                 : reinterpret_cast<const char*>(line->inside);
    return from == nullptr ? nullptr : from + how.at;
  };

  if constexpr (kRole == Role::kGives) {
    if (how.keeps) keep_own();
  } else if constexpr (kReduces) {
    const char* data[kMostRanks];
    for (int r = how.first; r < how.end; ++r) {
      data[r] = own + how.at;
      if (r == comm->rank) continue;
      data[r] = shown_by(r);
      if (data[r] == nullptr) return false;
    }
    const int64_t ranks = comm->size;
    how.reduce(out, reinterpret_cast<const void* const*>(data),
               static_cast<uint64_t>(how.end), how.count, &ranks);
  } else {
    for (int r = how.first; r < how.end; ++r) {
      if (r == comm->rank) {
        if (!how.keeps) keep_own();
        continue;
      }
      const char* const from = shown_by(r);
      if (from == nullptr) return false;
      char* const to = out + static_cast<size_t>(r) * stride;
      if constexpr (kStaged)
        take(*comm, r, to, from, bytes);
      else
        move(to, from, bytes);
    }
  }
  end(comm, how, ticket, shown, ahead);
  return true;
}

template <bool kStaged>
ShortCall::Body body_of(Role role, bool reduces) {
  if (role == Role::kGives) return run_short<kStaged, false, Role::kGives>;
  if (role == Role::kTakes)
    return reduces ? run_short<kStaged, true, Role::kTakes>
                   : run_short<kStaged, false, Role::kTakes>;
  return reduces ? run_short<kStaged, true, Role::kTrades>
                 : run_short<kStaged, false, Role::kTrades>;
}

}  // namespace

ShortCall ShortCall::of(const Comm& comm, const EngineOp& call) {
  ShortCall how;
  if (!comm.room.is_open() || !call.moves || call.is_message() ||
      call.scale != nullptr)
    return how;
  if (call.per_rank()) {
    if (call.kind == DW_OP_ALL_TO_ALL) how.run = run_short_pairs;
    how.shows = how.looks_at_all = true;
    how.meets = !comm.oversubscribed;
    how.end = comm.size;
    return how;
  }
  const size_t shown = shown_by_all(call, comm.size);
  if (shown > kMost || shown >= tried_from(comm, call) ||
      (kShapes[call.kind].reduces && shown >= sliced_from(comm, call)))
    return how;
  const size_t each = bytes_of_rank(call);
  find_sources(comm, call, &how);
  how.looks_at_all = how.end - how.first == comm.size;
  const bool is_one = how.end - how.first == 1;
  const bool waits =
      how.end - how.first > 1 || (is_one && how.first != comm.rank);
  how.meets = how.shows && how.looks_at_all && !comm.oversubscribed;
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
  const bool reduces = how.reduce != nullptr;
  how.keeps = !reduces && (is_one || (how.shows && how.looks_at_all)) &&
              how.first <= comm.rank && comm.rank < how.end;
  // The first rank of a scan needs no other rank's data.
  const Role role = !how.shows                     ? Role::kTakes
                    : waits || (reduces && is_one) ? Role::kTrades
                                                   : Role::kGives;
  how.run = shown > kInside ? body_of<true>(role, reduces)
                            : body_of<false>(role, reduces);
  return how;
}

}  // namespace shm_backend
