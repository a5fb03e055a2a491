// The steps that short calls have in common.
#ifndef DISTWRAP_BACKENDS_SHM_SHORT_STEP_H_
#define DISTWRAP_BACKENDS_SHM_SHORT_STEP_H_

#include "backend.h"
#include "reached.h"
#include "run.h"
#include "short_call.h"
#include "wait.h"

#include <algorithm>
#include <cstring>

namespace shm_backend::short_step {

[[gnu::always_inline]] inline void move(void* to, const void* from,
                                        size_t bytes) {
  if (bytes == sizeof(uint64_t))
    std::memcpy(to, from, sizeof(uint64_t));
  else
    copy(to, from, bytes);
}

// Copies a piece of this rank from buffer to buffer. Both mostly are in its own
// caches: one long instruction ("rep movsb") would still be starting when
// vector copies are half-way.
inline void keep(void* to, const void* from, size_t bytes) {
  constexpr size_t kShort = 2 << 10;
  bytes <= kShort ? move(to, from, bytes) : copy_by_vectors(to, from, bytes);
}

// Memory to stage this call's data; NULL when none is free. What a rank
// publishes begins a new page if all ranks meet: a rank that only reads comes
// later, and then to more of one page at once. `parts`: the data have a part
// for each rank, so no rank reads to the end.
inline char* stage(Comm* comm, const ShortCall& how, size_t bytes, bool parts,
                   uint64_t ticket, size_t* at) {
  constexpr size_t kLeastPage = 512;
  Stage& stage = comm->stage;
  if (stage.data == nullptr) return nullptr;
  uint64_t in_use = 0;
  const size_t begin =
      stage.take(bytes, stage.limit, ticket, comm->consumed, &in_use);
  if (begin == Stage::kNone) return nullptr;
  if (how.meets && bytes >= kLeastPage) stage.turn_page(!parts);
  *at = stage.at + begin;
  return stage.data + begin;
}

// Fetches for writing the lines that the next call writes first, if it is like
// this one.
inline void prepare_next(const Comm& comm, size_t shown) {
  // As many lines as a processor can request beside its work.
  constexpr size_t kMostLines = 16;
  take_ahead(&comm.room.mine().posts[line_of(comm.ticket)]);
  if (shown <= kInside || comm.goes_past(shown)) return;
  const Stage& stage = comm.stage;
  const size_t at = stage.next + shown > stage.limit ? 0 : stage.next;
  const size_t bytes = std::min(shown, kMostLines * kLine);
  for (size_t i = 0; i < bytes; i += kLine) take_ahead(stage.data + at + i);
}

// This call's slot; NULL when a peer may still read the old data in it.
inline Post* free_line(Comm* comm, uint64_t ticket) {
  const uint32_t line = line_of(ticket);
  if (!reached(comm->consumed, comm->posted[line])) return nullptr;
  return &comm->room.mine().posts[line];
}

inline void post(Comm* comm, Post* line, uint64_t ticket, size_t at,
                 uint32_t print) {
  comm->posted[line_of(ticket)] = ticket;
  line->what.store(static_cast<uint64_t>(at / kLine) << 32 | print,
                   std::memory_order_relaxed);
  line->ticket.store(ticket, std::memory_order_release);
  comm->room.wake_others();
}

// Prefetches `bytes` at offset `at` of what another rank has staged for the
// current call, if it has published the call.
inline void begin_to_fetch(const Comm& comm, int rank, size_t at,
                           size_t bytes) {
  const Post& post = comm.room.area(rank).posts[line_of(comm.ticket)];
  if (!reached(post.ticket.load(std::memory_order_relaxed), comm.ticket))
    return;
  const uint64_t what = post.what.load(std::memory_order_relaxed);
  const size_t begin = static_cast<size_t>(what >> 32) * kLine;
  // The data may be in the slot itself, or in the rank's heap.
  if (begin == 0 || begin >= comm.room.arena()->plot_bytes()) return;
  const char* const data = comm.room.find(rank, begin + at, bytes);
  for (size_t i = 0; i < bytes && data != nullptr; i += kLine)
    __builtin_prefetch(data + i);
}

// Prefetches from all other ranks as much as can arrive while this rank copies
// its own data.
inline void fetch_beside(const Comm& comm, const ShortCall& how) {
  constexpr size_t kLeast = 4 << 10, kFirst = 48 * kLine;
  if (how.bytes < kLeast) return;
  for (int r = how.first; r < how.end; ++r)
    if (r != comm.rank) begin_to_fetch(comm, r, how.at, kFirst);
}

// Prefetches from a rank that has already published the next call, if that is
// like this one.
inline void look_ahead(const Comm& comm, int rank, size_t shown, size_t at) {
  constexpr size_t kFirst = 12 * kLine;
  if (shown <= kInside)
    return __builtin_prefetch(
        &comm.room.area(rank).posts[line_of(comm.ticket)]);
  begin_to_fetch(comm, rank, at, std::min(shown - at, kFirst));
}

// Whether a rank publishes its slot while ranks that share processors take
// turns.
[[gnu::noinline]] inline bool comes_in_turns(Comm& comm, int rank,
                                             uint64_t ticket) {
  Reached shown(comm.room.area(rank).posts[line_of(ticket)].ticket, ticket,
                rank, 0, &comm.room);
  return wait_in_turns(&comm, shown);
}

// A rank's slot; NULL if it does not come soon or belongs to another call.
// `ahead` is set to false unless the slot was there at the first poll.
// `may_slip`: this rank only reads staged data.
[[gnu::always_inline]] inline const Post* look(Comm& comm, int rank,
                                               uint64_t ticket,
                                               const EngineOp& call,
                                               bool may_slip, bool* ahead) {
  const Post& post = comm.room.area(rank).posts[line_of(ticket)];
  for (int looks = std::min(comm.looks, kSoonLooks);
       !reached(post.ticket.load(std::memory_order_acquire), ticket);) {
    // A rank that publishes nothing has not reported this yet.
    if (*ahead) {
      comm.under_way(call);
      if (may_slip && !comm.oversubscribed) comm.pace.was_early(*comm.host);
    }
    *ahead = false;
    if (--looks <= 0) {
      comm.pace.waits();
      if (!comm.oversubscribed || !comes_in_turns(comm, rank, ticket))
        return nullptr;
      break;
    }
    pause();
  }
  const uint64_t what = post.what.load(std::memory_order_relaxed);
  return static_cast<uint32_t>(what) == call.print ? &post : nullptr;
}

// `bytes` at offset `at` of what a rank has staged for its slot.
inline const char* find(const Comm& comm, int rank, const Post& line, size_t at,
                        size_t bytes) {
  const uint64_t what = line.what.load(std::memory_order_relaxed);
  const size_t begin = static_cast<size_t>(what >> 32) * kLine;
  // Data in a rank's heap: `run` has to check that they stayed.
  const size_t most = comm.room.arena()->plot_bytes();
  if (begin >= most || at >= most) return nullptr;
  return comm.room.find(rank, begin + at, bytes);
}

// Copies staged data of another rank to the caller's buffer. One long
// instruction ("rep movsb") is faster where no cache is shared. Where one is,
// that takes up to twice as long as vector copies in some processes, and is
// never faster.
inline void take(const Comm& comm, int rank, void* to, const char* from,
                 size_t bytes) {
  if (comm.distances.is_far(rank)) return copy(to, from, bytes);
  copy_by_vectors(to, from, bytes);
}

// Ends a call that has read its data. `ahead`: all other ranks had published
// before this one looked.
[[gnu::always_inline]] inline void end(Comm* comm, const ShortCall& how,
                                       uint64_t ticket, size_t shown,
                                       bool ahead) {
  // Acknowledges only now and then: other ranks read the word only when they
  // are ahead by all slots, and reading takes its line away from the writer. A
  // rank that waits for a slot which this rank has read but not acknowledged
  // has published more that this rank has not read.
  constexpr uint32_t kUnsaid = kPosts / 4;
  if (shown > kInside || line_of(ticket) % kUnsaid == 0) {
    comm->room.mine().done.store(ticket + kLastRound,
                                 std::memory_order_release);
    comm->room.wake_others();
  }
  if (shown >= Distances::kLeast) {
    comm->room.mine().pulse.store(ticket, std::memory_order_relaxed);
    comm->distances.look();
  }
  // This rank has polled all others, and no rank enters this call before the
  // end of the last one.
  if (how.looks_at_all && !reached(comm->consumed, ticket - 1))
    comm->consumed = ticket - 1;
  comm->ticket = ticket + kLastRound + 1;
  if (how.shows) prepare_next(*comm, shown);
  if (ahead)
    for (int r = how.first; r < how.end; ++r)
      if (r != comm->rank) look_ahead(*comm, r, shown, how.at);
}

}  // namespace shm_backend::short_step

#endif  // DISTWRAP_BACKENDS_SHM_SHORT_STEP_H_
