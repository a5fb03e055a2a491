// One running collective: rounds in which ranks publish slots and poll those of
// the others.
//
//   run.show(0, mine, bytes);
//   const char* theirs = run.look(rank, 0, bytes);
//   run.done(0);
//
// In a round a rank publishes one slot with the print (hash) of its call and
// the place of its data. `done` acknowledges all rounds up to one: the other
// ranks may reuse those slots and their staging. A call that fails keeps its
// first code, and all later steps fail at once.
//
// Threads: the one that runs collectives.
#ifndef DISTWRAP_BACKENDS_SHM_RUN_H_
#define DISTWRAP_BACKENDS_SHM_RUN_H_

#include "backend.h"
#include "copy.h"
#include "wait.h"

namespace shm_backend {

class Run {
 public:
  // `call` and `error` have to outlive this object.
  Run(Comm* comm, const EngineOp& call, dw_error* error);

  Comm* comm;
  const EngineOp& call;
  const int rank, size;
  // Makes the call run without staging: CMA copies pieces from buffer to
  // buffer, and reductions read elements where they lie. All ranks have to
  // decide alike, since the print changes: otherwise they report different
  // calls.
  void go_in_place() {
    is_in_place_ = true;
    print_ = call.print ^ 0x9e3779b1u;
  }
  bool is_in_place() const { return is_in_place_; }
  // A hash of the call, and of whether it runs in place.
  uint32_t print() const { return print_; }

  // Called before the rounds of an operation that may be large. `result` and
  // `input` are the largest numbers of bytes that a rank writes to and reads
  // from its caller's buffers; `ring` is how many bytes of the staging a group
  // of two ranks uses in turn.
  static constexpr size_t kShortRing = 1 << 20;
  void expect(size_t result, size_t input, size_t ring = kShortRing);
  // Limits the ring for ranks that share processors, in calls of `bytes` bytes.
  // Allowed where no round publishes more than a quarter of `ring()`.
  void share_caches(size_t bytes);
  size_t ring() const { return ring_; }
  bool past_caches() const { return past_caches_; }

  // Memory for the data of this round; NULL when the call has failed. Few bytes
  // go into the slot itself unless `staged`.
  char* prepare(uint32_t round, size_t bytes, bool staged = false);
  // Memory in the slot itself, with or without data from `prepare`.
  char* beside(size_t bytes) {
    inside_bytes_ = bytes;
    return inside_;
  }
  void show_prepared(uint32_t round);
  // Publishes a copy of `bytes` at `from`.
  void show(uint32_t round, const void* from, size_t bytes, uint32_t print);
  void show(uint32_t round, const void* from, size_t bytes) {
    show(round, from, bytes, print_);
  }

  // Whether a short call has already published this round before it found a
  // rank that was late.
  bool has_shown(uint32_t round) const {
    const uint64_t ticket = ticket_of(round);
    return comm->posted[line_of(ticket)] == ticket;
  }

  // Polls until rank `other` has published `round`, and returns `bytes` at
  // `offset` of the `total` that it published; NULL when the call has failed.
  const char* look(int other, uint32_t round, size_t total, size_t offset,
                   size_t bytes, uint32_t print);
  const char* look(int other, uint32_t round, size_t bytes) {
    return look(other, round, bytes, 0, bytes, print_);
  }
  const char* look(int other, uint32_t round, size_t total, size_t offset,
                   size_t bytes) {
    return look(other, round, total, offset, bytes, print_);
  }
  // As `look`, where each rank publishes either staged data or its own memory:
  // the bytes are at offset `staged` of the former, `lent` of the latter.
  const char* look_at_either(int other, uint32_t round, size_t staged,
                             size_t lent, size_t bytes);
  // Whether `look` at this round would return at once.
  bool is_shown(int other, uint32_t round) const {
    return reached(post_of(other, round).ticket.load(std::memory_order_acquire),
                   ticket_of(round));
  }
  // Whether `other` has finished this operation.
  bool has_ended(int other) const {
    return reached(comm->room.area(other).done.load(std::memory_order_acquire),
                   ticket_ + kLastRound);
  }
  // As `total`: the data were prepared with `staged`.
  static constexpr size_t kStaged = SIZE_MAX;
  // Copies data of this rank to the caller's buffer.
  void keep(void* to, const void* from, size_t bytes) const {
    if (past_caches_ && to != from) return copy_past_caches(to, from, bytes);
    copy(to, from, bytes);
  }
  // Copies data of another rank, from `look`, to the caller's buffer.
  void take(int other, void* to, const char* from, size_t bytes) const {
    if (bytes < kPagesBytes) return copy(to, from, bytes);
    fetch(to, from, bytes, is_in_memory(other, bytes), past_caches_);
  }
  // Whether `bytes` that `other` staged lie more likely in memory than in the
  // caches of its processor.
  bool is_in_memory(int other, size_t bytes) const {
    return bytes >= Distances::kLeast &&
           comm->room.area(other).writes_past.load(std::memory_order_relaxed) !=
               0;
  }

  // Says that other ranks read the caller's memory until the call ends.
  void lend() { lends_ = true; }
  bool lends() const { return lends_; }
  // Says so if the buffer lies in this rank's heap at the beginning of a line;
  // returns its place, or 0. The heap keeps the buffer as long as the operation
  // runs.
  size_t lend_in() { return lend_in(call.in); }
  size_t lend_in(const Piece& all) { return lend(comm->lease.in, all); }
  size_t lend_out() { return lend(comm->lease.out, call.out); }
  // As these, at any byte.
  size_t lend_bytes(Lease::Range& range, const Piece& piece) {
    const size_t place =
        comm->room.arena()->heap().place_of(piece.at, piece.bytes);
    if (place == 0) return 0;
    lend();
    range.begin.store(place, std::memory_order_relaxed);
    range.end.store(place + piece.bytes, std::memory_order_release);
    return place;
  }
  // Says that this rank reads memory that others lend. A lender that gives up
  // announces that before it uses the memory again, so `finish` checks the
  // lenders.
  void borrow() { borrows_ = true; }
  // Memory in the heap of a lender; NULL when the call has failed.
  char* find_lent(int other, size_t place, size_t bytes);
  // Publishes data at `place` in this rank's heap; the operation has to end by
  // `finish_together`.
  void show_at(uint32_t round, size_t place) {
    post(round, print_, place, nullptr, 0);
  }

  void done(uint32_t round) { done_ticket(ticket_of(round)); }
  // Waits for `condition`. False: the call has failed.
  bool wait(Condition& condition);
  // The operation's number.
  uint64_t number() const { return ticket_ >> kRoundBits; }
  // Ends the operation. `symmetric`: this rank has polled every other rank, so
  // all ranks have finished the previous operation.
  int32_t finish(bool symmetric);
  // Ends the operation after all other ranks have, so nobody reads this rank's
  // memory any more.
  int32_t finish_together();

  bool failed() const { return code_ != DW_OK; }
  int32_t code() const { return code_; }
  void fail(int32_t code) { code_ = code; }
  void fail_nonsense(int rank);
  // Fails the call: `rank` published a place where no memory is.
  void fail_missing(int rank, size_t place);
  void fail_mismatch(int rank);
  void fail_no_memory();
  // Fails the call: `rank` has left the group or died.
  void fail_left(int rank);

 private:
  size_t lend(Lease::Range& range, const Piece& piece) {
    const size_t place =
        comm->room.arena()->heap().place_of(piece.at, piece.bytes);
    if (place == 0 || place % kLine != 0) [[likely]]
      return 0;
    return lend_bytes(range, piece);
  }
  // Waits for a rank's slot; NULL when the call has failed.
  const Post* wait_for_post(int other, uint32_t round, uint32_t print);
  const char* find(int other, size_t at, size_t bytes);
  uint64_t ticket_of(uint32_t round) const { return ticket_ + round; }
  const Post& post_of(int other, uint32_t round) const {
    return comm->room.area(other).posts[line_of(ticket_of(round))];
  }
  // Wait condition: a peer's word has reached `ticket`. `all` is given where
  // every rank has to publish that round.
  bool wait_for(const std::atomic<uint64_t>& word, uint64_t ticket, int peer,
                const Room* all);
  bool wait_long(const std::atomic<uint64_t>& word, uint64_t ticket, int peer,
                 const Room* all);
  void use_ring(size_t bytes);
  // Takes memory for this rank's staging. False: the call has failed.
  bool take_stage();
  // Waits until all other ranks have acknowledged `ticket`.
  bool wait_consumed(uint64_t ticket);
  bool wait_for_line(uint64_t ticket);
  void see_consumed();
  void post(uint32_t round, uint32_t print, size_t offset, const void* inside,
            size_t bytes);
  void done_ticket(uint64_t ticket);
  // Fails the call if a rank that lent memory has given up.
  void check_lenders();

  bool is_in_place_ = false;
  uint32_t print_;
  Stage& stage_;
  size_t ring_;  // bytes of staging used in turn
  bool past_caches_ = false;
  bool borrows_ = false, lends_ = false;
  const uint64_t ticket_;  // the operation's first round
  Limit limit_;
  dw_error* const error_;
  // The prepared data: offset in the region, and bytes inside the slot.
  size_t prepared_ = 0, inside_bytes_ = 0;
  char inside_[kInside];
  int32_t code_ = DW_OK;
};

// reductions.cc: reduce, all_reduce and scan that fit a few rounds. Each rank
// that needs the result reduces all elements.
void run_flat(Run& run);
// sliced.cc: each rank reduces a share of the elements.
void run_sliced(Run& run);
void run_reduce_scatter(Run& run);
// Chooses between run_flat and run_sliced. Inputs of `sliced_from` bytes or
// more are reduced in shares.
size_t sliced_from(const Comm& comm, const EngineOp& call);
void run_staged(Run& run);
// direct.cc: reductions that read the elements of other ranks where they lie.
void run_direct(Run& run);
void run_direct_reduce_scatter(Run& run);
// pairs.cc: operations whose sizes only pairs of ranks know.
void run_pairs(Run& run);
// blocks.cc: an exchange and a gather of strided pieces.
void run_blocks(Run& run);
void run_block_gather(Run& run);
// moves.cc
void run_barrier(Run& run);
void run_broadcast(Run& run);
void run_all_gather(Run& run);
void run_gather(Run& run);
void run_scatter(Run& run);
void run_all_to_all(Run& run);

// straight_moves.cc: moves data from buffer to buffer by CMA. False: the
// operation does more than move data, and nothing has been done.
bool run_straight(Run& run);

// agree.cc: all ranks find out together whether the large staging and CMA can
// be used.
int32_t agree_on_ways(Comm* comm, const EngineOp& call, dw_error* error);

// The largest number of bytes that a rank stages in a group's first calls.
inline constexpr size_t kFirstStaging = 2 << 10;
// Whether a call uses the large staging; all ranks decide alike. After some
// calls even smaller ones use it, since a ring that fits the first-level cache
// is slow to write again.
inline bool is_for_large_staging(const Comm& comm, size_t shown) {
  constexpr uint64_t kSome = 64;
  return shown > kFirstStaging ||
         (shown > kInside && comm.ticket >> kRoundBits >= kSome);
}

// Runs a collective to its end. DW_OK, or the communicator is broken.
int32_t run(Comm* comm, const EngineOp& call, dw_error* error);

// Reduces the ranks' elements in rank order.
struct Reducer {
  Reducer(Run& run);
  // Stages this rank's elements, scaled if the call says so.
  void stage_own(void* to, const void* from, size_t bytes) const;
  void operator()(void* out, const void* const* in, int n, size_t bytes) const {
    kernel(out, in, static_cast<uint64_t>(n), bytes / element, &ranks);
  }
  // Reduces elements that other ranks have staged.
  void fetch(void* out, const void* const* in, int n, size_t bytes) const;
  // As `fetch`, and writes the result with non-temporal stores.
  void fetch_past_caches(void* out, const void* const* in, int n,
                         size_t bytes) const;

  Run& run;
  dw_reduce_fn kernel;
  dw_reduce_fn scale = nullptr;  // NULL: not scaled
  const void* factor;
  size_t element;
  int64_t ranks;
};

}  // namespace shm_backend

#endif  // DISTWRAP_BACKENDS_SHM_RUN_H_
