// One collective on its way: rounds in which ranks show data and look at what
// the others show.
//
//   run.show(0, mine, bytes);
//   const char* theirs = run.look(rank, 0, bytes);
//   run.done(0);
//
// In a round a rank posts one line, which says that its data is there, and
// which call it belongs to. `done` says that this rank has read what it wants
// of the rounds up to one; then the others may use lines and staging again. A
// call that fails keeps its code, and all that follows fails at once.
#ifndef DISTWRAP_BACKENDS_SHM_RUN_H_
#define DISTWRAP_BACKENDS_SHM_RUN_H_

#include "backend.h"
#include "copy.h"
#include "wait.h"

namespace shm_backend {

class Run {
 public:
  // Call and error outlive it.
  Run(Comm* comm, const Call& call, dw_error* error);

  Comm* comm;
  const Call& call;
  const int rank, size;
  // Pieces go from buffer to buffer, and elements are reduced where they lie;
  // otherwise both go through staging. All ranks have to say the same, or they
  // find that their calls differ.
  void go_in_place() {
    is_in_place_ = true;
    print_ = call.print ^ 0x9e3779b1u;
  }
  bool is_in_place() const { return is_in_place_; }
  // Of the call and its way.
  uint32_t print() const { return print_; }

  // Before the rounds of an operation that may be large: how many bytes a rank
  // writes to its caller's buffers and reads there at most, and how much of the
  // staging two ranks then use in turn.
  static constexpr size_t kShortRing = 1 << 20;
  void expect(size_t result, size_t input, size_t ring = kShortRing);
  // Ranks that share processors use a part of the staging as well, in calls of
  // so many bytes. Of operations of which no round shows more than a quarter of
  // `ring()`.
  void share_caches(size_t bytes);
  size_t ring() const { return ring_; }
  bool past_caches() const { return past_caches_; }

  // Room for what this round shows, NULL when the call has failed. What is
  // small goes into the line of the post itself, unless `staged`.
  char* prepare(uint32_t round, size_t bytes, bool staged = false);
  // Room in the line of the post itself, beside what was prepared or alone.
  char* beside(size_t bytes) {
    inside_bytes_ = bytes;
    return inside_;
  }
  void show_prepared(uint32_t round);
  // A copy of these bytes.
  void show(uint32_t round, const void* from, size_t bytes, uint32_t print);
  void show(uint32_t round, const void* from, size_t bytes) {
    show(round, from, bytes, print_);
  }

  // By `run_short`, before somebody turned out to be late.
  bool has_shown(uint32_t round) const {
    const uint64_t ticket = ticket_of(round);
    return comm->posted[line_of(ticket)] == ticket;
  }

  // `bytes` at `offset` of the `total` that a rank shows; NULL when the call
  // has failed.
  const char* look(int other, uint32_t round, size_t total, size_t offset,
                   size_t bytes, uint32_t print);
  const char* look(int other, uint32_t round, size_t bytes) {
    return look(other, round, bytes, 0, bytes, print_);
  }
  const char* look(int other, uint32_t round, size_t total, size_t offset,
                   size_t bytes) {
    return look(other, round, total, offset, bytes, print_);
  }
  // Whether that would return at once.
  bool is_shown(int other, uint32_t round) const {
    return reached(post_of(other, round).ticket.load(std::memory_order_acquire),
                   ticket_of(round));
  }
  // Whether another has come to the end of this operation.
  bool has_ended(int other) const {
    return reached(comm->room.area(other).done.load(std::memory_order_acquire),
                   ticket_ + kLastRound);
  }
  // `total` of what was prepared as staged.
  static constexpr size_t kStaged = SIZE_MAX;
  // What this rank has written or was given, to the caller's buffer.
  void keep(void* to, const void* from, size_t bytes) const {
    if (past_caches_ && to != from) return copy_past_caches(to, from, bytes);
    copy(to, from, bytes);
  }
  // What was looked at of another rank's, to the caller's buffer.
  void take(int other, void* to, const char* from, size_t bytes) const {
    if (bytes < kPagesBytes) return copy(to, from, bytes);
    fetch(to, from, bytes, is_in_memory(other, bytes), past_caches_);
  }
  // Whether so many staged bytes of another's are more likely there than in its
  // caches.
  bool is_in_memory(int other, size_t bytes) const {
    return bytes >= Distances::kLeast &&
           comm->room.area(other).writes_past.load(std::memory_order_relaxed) !=
               0;
  }

  // Others may read in the caller's memory until the end.
  void lend() { lends_ = true; }
  bool lends() const { return lends_; }
  // The same, if that lies in this rank's heap and begins a line there: where,
  // or 0. As long as the operation runs it is not given back.
  size_t lend_in() { return lend_in(call.in); }
  size_t lend_in(const Piece& all) { return lend(comm->lease.in, all); }
  size_t lend_out() { return lend(comm->lease.out, call.out); }
  // What another lends is read: whoever has given up by the end may have used
  // that memory again, and says so before.
  void borrow() { borrows_ = true; }
  // What lies there; the operation has to end together.
  void show_at(uint32_t round, size_t place) {
    post(round, print_, place, nullptr, 0);
  }

  void done(uint32_t round) { done_ticket(ticket_of(round)); }
  // Until it holds, or has failed the call. False: the call has failed.
  bool wait(Condition& condition);
  // The operation's number.
  uint64_t number() const { return ticket_ >> kRoundBits; }
  // The end of the operation. `symmetric`: this rank has looked at every other
  // one, so all have finished the operation before.
  int32_t finish(bool symmetric);
  // The same, when all others have ended it too: nobody reads this rank's
  // memory any more.
  int32_t finish_together();

  bool failed() const { return code_ != DW_OK; }
  int32_t code() const { return code_; }
  void fail(int32_t code) { code_ = code; }
  void fail_nonsense(int rank);
  // It names a place where nothing is.
  void fail_missing(int rank, size_t place);
  void fail_mismatch(int rank);
  // It takes no part any more.
  void fail_left(int rank);

 private:
  size_t lend(Lease::Range& range, const Piece& piece) {
    const size_t place =
        comm->room.arena()->heap().place_of(piece.at, piece.bytes);
    if (place == 0 || place % kLine != 0) [[likely]]
      return 0;
    lend();
    range.begin.store(place, std::memory_order_relaxed);
    range.end.store(place + piece.bytes, std::memory_order_release);
    return place;
  }
  uint64_t ticket_of(uint32_t round) const { return ticket_ + round; }
  const Post& post_of(int other, uint32_t round) const {
    return comm->room.area(other).posts[line_of(ticket_of(round))];
  }
  // For a peer's word; `all`: where every rank has to show that round.
  bool wait_for(const std::atomic<uint64_t>& word, uint64_t ticket, int peer,
                const Room* all);
  bool wait_long(const std::atomic<uint64_t>& word, uint64_t ticket, int peer,
                 const Room* all);
  void use_ring(size_t bytes);
  // The memory of this rank's staging.
  bool take_stage();
  // Until all others have read everything up to a ticket.
  bool wait_consumed(uint64_t ticket);
  bool wait_for_line(uint64_t ticket);
  void see_consumed();
  void post(uint32_t round, uint32_t print, size_t offset, const void* inside,
            size_t bytes);
  void done_ticket(uint64_t ticket);
  // Fails the call if anybody has given up.
  void check_lenders();

  bool is_in_place_ = false;
  uint32_t print_;
  Stage& stage_;
  size_t ring_;  // how much of the staging is used in turn
  bool past_caches_ = false;
  bool borrows_ = false, lends_ = false;
  const uint64_t ticket_;  // of the operation's first round
  Limit limit_;
  dw_error* const error_;
  // What was prepared: where, and how much of it is for the line.
  size_t prepared_ = 0, inside_bytes_ = 0;
  char inside_[kInside];
  int32_t code_ = DW_OK;
};

// reductions.cc: reduce, all_reduce and scan of what fits a few rounds.
void run_flat(Run& run);
// sliced.cc: each rank reduces a share of the elements.
void run_sliced(Run& run);
void run_reduce_scatter(Run& run);
// Either: a rank's input of so many bytes is reduced in shares.
size_t sliced_from(const Comm& comm, const Call& call);
void run_staged(Run& run);
// direct.cc: the same, where the elements of others are read in their memory.
void run_direct(Run& run);
void run_direct_reduce_scatter(Run& run);
// pairs.cc: those of which only pairs of ranks know the sizes.
void run_pairs(Run& run);
// moves.cc
void run_barrier(Run& run);
void run_broadcast(Run& run);
void run_all_gather(Run& run);
void run_gather(Run& run);
void run_scatter(Run& run);
void run_all_to_all(Run& run);

// straight_moves.cc: one of those that only move data, from buffer to buffer.
// False: it is none; nothing has been done.
bool run_straight(Run& run);

// agree.cc: whether the large staging can be used, and each other's memory,
// found out together.
int32_t agree_on_ways(Comm* comm, const Call& call, dw_error* error);

// What every rank's first staging serves.
inline constexpr size_t kFirstStaging = 2 << 10;
// Whether a call is one for the large staging, the same on all ranks. What is
// smaller goes there as well in a group that has made some calls: a ring that
// fits a processor's first cache is slow to be written again.
inline bool is_for_large_staging(const Comm& comm, size_t shown) {
  constexpr uint64_t kSome = 64;
  return shown > kFirstStaging ||
         (shown > kInside && comm.ticket >> kRoundBits >= kSome);
}

// A collective, to its end. DW_OK, or the communicator is broken.
int32_t run(Comm* comm, const Call& call, dw_error* error);

// What reduces the ranks' elements, in their order.
struct Reducer {
  Reducer(Run& run);
  // This rank's own elements for the others, scaled when the call says so.
  void stage_own(void* to, const void* from, size_t bytes) const;
  void operator()(void* out, const void* const* in, int n, size_t bytes) const {
    kernel(out, in, static_cast<uint64_t>(n), bytes / element, &ranks);
  }
  // The same of what others have staged.
  void fetch(void* out, const void* const* in, int n, size_t bytes) const;
  // And the result goes past the caches.
  void fetch_past_caches(void* out, const void* const* in, int n,
                         size_t bytes) const;

  Run& run;
  dw_reduce_fn kernel;
  dw_reduce_fn scale = nullptr;  // NULL: as they are
  const void* factor;
  size_t element;
  int64_t ranks;
};

}  // namespace shm_backend

#endif  // DISTWRAP_BACKENDS_SHM_RUN_H_
