#include "short_call.h"

#include "backend.h"
#include "run.h"
#include "wait.h"

#include <algorithm>
#include <cstring>

namespace shm_backend {
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

[[gnu::always_inline]] inline void move(void* to, const void* from,
                                        size_t bytes) {
  if (bytes == sizeof(uint64_t))
    std::memcpy(to, from, sizeof(uint64_t));
  else
    copy(to, from, bytes);
}

// Whether what it shows begins a page. Who reads only comes later, and then to
// more of one page at once.
bool has_pages(const ShortCall& how) {
  constexpr size_t kLeast = 512;
  return how.meets && how.shown >= kLeast;
}

// Where the data of this call are staged; NULL: not now.
char* stage(Comm* comm, const char* own, const ShortCall& how, uint64_t ticket,
            size_t* at) {
  Stage& stage = comm->stage;
  if (stage.data == nullptr) return nullptr;
  // What can be read where it lies is not copied.
  if (how.reduce != nullptr &&
      comm->room.arena()->heap().place_of(own, how.shown) != 0) [[unlikely]]
    return nullptr;
  uint64_t in_use = 0;
  const size_t begin =
      stage.take(how.shown, stage.limit, ticket, comm->consumed, &in_use);
  if (begin == Stage::kNone) return nullptr;
  if (has_pages(how)) stage.turn_page();
  *at = stage.at + begin;
  return stage.data + begin;
}

// The lines that the next call, if it is like this one, will write first.
void prepare_next(const Comm& comm, size_t shown) {
  // As many as a processor can wait for beside what it does.
  constexpr size_t kMostLines = 16;
  take_ahead(&comm.room.mine().posts[line_of(comm.ticket)]);
  if (shown <= kInside) return;
  const Stage& stage = comm.stage;
  const size_t at = stage.next + shown > stage.limit ? 0 : stage.next;
  const size_t bytes = std::min(shown, kMostLines * kLine);
  for (size_t i = 0; i < bytes; i += kLine) take_ahead(stage.data + at + i);
}

// All but the part that is this rank's own.
void copy_parts(const Comm& comm, char* to, const char* own,
                const ShortCall& how) {
  for (int r = 0; r < comm.size; ++r) {
    const size_t at = static_cast<size_t>(r) * how.bytes;
    if (r != comm.rank) copy(to + at, own + at, how.bytes);
  }
}

bool show(Comm* comm, const char* own, const ShortCall& how, uint64_t ticket,
          uint32_t print) {
  const uint32_t line = line_of(ticket);
  if (!reached(comm->consumed, comm->posted[line])) return false;
  Post& post = comm->room.mine().posts[line];
  size_t at = 0;
  char* staged = nullptr;
  if (how.shown <= kInside) {
    move(post.inside, own, how.shown);
  } else {
    staged = stage(comm, own, how, ticket, &at);
    if (staged == nullptr) return false;
    if (how.shown == how.bytes)
      copy(staged, own, how.shown);
    else
      copy_parts(*comm, staged, own, how);
  }
  comm->posted[line] = ticket;
  post.what.store(static_cast<uint64_t>(at / kLine) << 32 | print,
                  std::memory_order_relaxed);
  post.ticket.store(ticket, std::memory_order_release);
  comm->room.wake_others();
  // While it waits for the others anyway.
  if (how.meets && how.shown > kInside && how.shown <= kMostHandedDown)
    hand_down(staged, how.shown);
  return true;
}

// Begins to fetch what another has shown for the next call, if it is ahead by
// that and the call is like this one.
void look_ahead(const Comm& comm, int rank, size_t shown) {
  constexpr size_t kFirst = 12 * kLine;
  const Post& post = comm.room.area(rank).posts[line_of(comm.ticket)];
  if (!reached(post.ticket.load(std::memory_order_relaxed), comm.ticket))
    return;
  const uint64_t what = post.what.load(std::memory_order_relaxed);
  const size_t begin = static_cast<size_t>(what >> 32) * kLine;
  // Data may be in the line itself, or in memory of the rank's own.
  if (begin == 0 || begin >= comm.room.arena()->plot_bytes()) return;
  const size_t bytes = std::min(shown, kFirst);
  const char* const data = comm.room.find(rank, begin, bytes);
  for (size_t i = 0; i < bytes && data != nullptr; i += kLine)
    __builtin_prefetch(data + i);
}

// What a rank shows, unless it does not come soon or shows something else.
// `ahead`: it had come before.
[[gnu::always_inline]] inline const char* look(const Comm& comm, int rank,
                                               const ShortCall& how,
                                               uint64_t ticket, uint32_t print,
                                               bool* ahead) {
  const Post& post = comm.room.area(rank).posts[line_of(ticket)];
  for (int looks = std::min(comm.looks, kSoonLooks);
       !reached(post.ticket.load(std::memory_order_acquire), ticket);) {
    *ahead = false;
    if (--looks <= 0) return nullptr;
    pause();
  }
  const uint64_t what = post.what.load(std::memory_order_relaxed);
  if (static_cast<uint32_t>(what) != print) return nullptr;
  if (how.shown <= kInside) return reinterpret_cast<const char*>(post.inside);
  const size_t begin = static_cast<size_t>(what >> 32) * kLine;
  // Its own memory: it has to be asked whether that stayed.
  if (begin >= comm.room.arena()->plot_bytes()) return nullptr;
  return comm.room.find(rank, begin, how.shown);
}

}  // namespace

ShortCall ShortCall::of(const Comm& comm, const Call& call) {
  ShortCall how;
  // Where ranks share processors, those that only give are ahead by all lines
  // at once, and then take turns with who takes.
  if (!comm.room.is_open() || !call.moves || call.is_message() ||
      call.per_rank() || call.scale != nullptr ||
      (comm.crowded && kShapes[call.kind].root_takes))
    return how;
  const size_t shown = shown_by_all(call, comm.size);
  if (shown > kMost || shown >= tried_from(comm, call) ||
      (kShapes[call.kind].reduces && shown >= sliced_from(comm, call)))
    return how;
  const size_t each = bytes_of_rank(call);
  how.fits = true;
  find_sources(comm, call, &how);
  how.looks_at_all = how.end - how.first == comm.size;
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
  // In staging that is small `run` may need more rounds, and finds out first
  // what there is.
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
  for (int r = how.first; r < how.end; ++r) {
    const char* from = own;
    if (r != comm->rank) {
      from = look(*comm, r, how, ticket, call.print, &ahead);
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

  // Not each time: others look there only when they are ahead by all lines, and
  // take the word away from who writes it. Whoever waits for a line that this
  // rank has read, and not said so, has shown more that it has not.
  constexpr uint32_t kUnsaid = kPosts / 4;
  if (how.shown > kInside || line_of(ticket) % kUnsaid == 0) {
    comm->room.mine().done.store(ticket + kLastRound,
                                 std::memory_order_release);
    comm->room.wake_others();
  }
  // It has looked at everybody, and nobody comes here before the last call's
  // end.
  if (how.looks_at_all && !reached(comm->consumed, ticket - 1))
    comm->consumed = ticket - 1;
  comm->ticket = ticket + kLastRound + 1;
  if (how.shows) prepare_next(*comm, how.shown);
  if (ahead)
    for (int r = how.first; r < how.end; ++r)
      if (r != comm->rank) look_ahead(*comm, r, how.shown);
  return true;
}

}  // namespace shm_backend
