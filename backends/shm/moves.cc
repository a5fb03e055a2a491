// Operations that only move data, where all ranks know all sizes.
#include "parts.h"
#include "run.h"

#include <algorithm>
#include <cstring>

namespace shm_backend {
namespace {

// Bytes in a round when all ranks give and take. Staged data are then read a
// whole round later, when they have moved from the writer's caches to the
// shared one, from where they come faster.
constexpr size_t kMostExchanged = 2 * kMostInRound;
// Bytes in a round of an all_gather of ranks that share processors and caches.
constexpr size_t kMostShared = kMostInRound / 2;

// The i-th other rank, counted from the next one, so that not all ranks turn to
// the same one at once.
int nth_other(const Run& run, int i) { return (run.rank + 1 + i) % run.size; }

// The largest part of a piece in one round, when a block has `parts` parts: a
// rank that has published two rounds has room for a third wherever the ring
// begins again.
size_t largest_part(const Run& run, size_t parts, size_t most = kMostInRound) {
  const size_t fits = run.ring() / 4 / parts / kLine * kLine;
  return std::clamp(fits, kLine, most);
}

// A published block: a part for each rank, in rank order. The rank's own part
// is left out, since an unused place in the ring makes the ring smaller; but
// blocks as short calls publish them contain it.
class Block {
 public:
  // `piece`: bytes of a piece.
  Block(const Run& run, size_t piece)
      : size_(static_cast<size_t>(run.size)),
        is_dense_(size_ * piece > ShortCall::kMost) {}

  size_t parts() const { return is_dense_ ? size_ - 1 : size_; }
  char* prepare(Run& run, uint32_t round, size_t part) const {
    return run.prepare(round, parts() * part, is_dense_);
  }
  // Offset of the part from `owner` to rank `to`, when parts have `part` bytes.
  size_t place(int owner, int to, size_t part) const {
    return static_cast<size_t>(is_dense_ && to > owner ? to - 1 : to) * part;
  }
  const char* look(Run& run, int owner, uint32_t round, size_t part) const {
    return run.look(owner, round, is_dense_ ? Run::kStaged : size_ * part,
                    place(owner, run.rank, part), part);
  }

 private:
  size_t size_;
  bool is_dense_;
};

void show_parts(Run& run, uint32_t round, const Pieces& pieces, size_t step) {
  if (run.has_shown(round)) return;
  const Block block(run, pieces[0].bytes);
  const size_t at = round * step;
  const size_t each = part_of(pieces[0], at, step).bytes;
  char* const to = block.prepare(run, round, each);
  if (to == nullptr) return;
  for (int r = 0; r < run.size; ++r)
    if (r != run.rank)
      run.comm->stage_copy(to + block.place(run.rank, r, each),
                           part_of(pieces[r], at, step).at, each);
  run.show_prepared(round);
}

// Takes this rank's part of the block that `from` publishes.
void take_part(Run& run, int from, uint32_t round, Piece piece, size_t step) {
  const Piece to = part_of(piece, round * step, step);
  const char* const data =
      Block(run, piece.bytes).look(run, from, round, to.bytes);
  if (data != nullptr) run.take(from, to.at, data, to.bytes);
}

// Bytes of a piece that go in one round.
size_t step_of_blocks(const Run& run, const Piece& one, size_t most) {
  const size_t parts = Block(run, one.bytes).parts();
  return std::min(largest_part(run, parts, most),
                  std::max<size_t>(1, one.bytes));
}

}  // namespace

void run_barrier(Run& run) {
  run.show(0, nullptr, 0);
  for (int other = 0; other < run.size; ++other)
    if (other != run.rank && run.look(other, 0, 0) == nullptr) return;
  run.finish(true);
}

void run_broadcast(Run& run) {
  const EngineOp& call = run.call;
  const bool is_root = run.rank == call.peer;
  run.expect(call.out.bytes, 0);
  const size_t step = std::min(call.out.bytes, largest_part(run, 1));
  uint32_t round = 0;
  for (size_t at = 0; at < call.out.bytes; at += step, ++round) {
    const Piece to = part_of(call.out, at, step);
    if (is_root) {
      run.show(round, call.in.at + at, to.bytes);
      run.keep(to.at, call.in.at + at, to.bytes);
    } else {
      const char* const from = run.look(call.peer, round, to.bytes);
      if (from == nullptr) return;
      run.take(call.peer, to.at, from, to.bytes);
    }
    if (at + to.bytes < call.out.bytes) run.done(round);
    if (run.failed()) return;
  }
  run.finish(false);
}

void run_all_gather(Run& run) {
  const EngineOp& call = run.call;
  const size_t longest = call.out_pieces.longest();
  const size_t all = static_cast<size_t>(run.size) * longest;
  run.expect(all, longest);
  run.share_caches(all);
  const size_t step = largest_part(
      run, 1, run.comm->oversubscribed ? kMostShared : kMostExchanged);
  const size_t rounds = rounds_of(longest, step);
  for (size_t turn = 0; turn < rounds + 1 && !run.failed(); ++turn) {
    if (turn < rounds) {
      const Piece own = part_of(call.in, turn * step, step);
      if (own.bytes != 0)
        run.show(static_cast<uint32_t>(turn), own.at, own.bytes);
      const Piece to = part_of(call.out_pieces[run.rank], turn * step, step);
      run.keep(to.at, own.at, own.bytes);
    }
    if (turn == 0) continue;
    const auto round = static_cast<uint32_t>(turn - 1);
    for (int i = 0; i < run.size - 1; ++i) {
      const int r = nth_other(run, i);
      const Piece to = part_of(call.out_pieces[r], round * step, step);
      if (to.bytes == 0) continue;
      const char* const from = run.look(r, round, to.bytes);
      if (from == nullptr) return;
      run.take(r, to.at, from, to.bytes);
    }
    if (turn < rounds) run.done(round);
  }
  run.finish(!call.per_rank());
}

void run_gather(Run& run) {
  const EngineOp& call = run.call;
  // Only the root reads, and the other ranks are soon ahead of it by all their
  // staging.
  run.share_caches(static_cast<size_t>(run.size) * call.in.bytes / 2);
  const size_t step = largest_part(run, 1);
  const auto rounds = static_cast<uint32_t>(rounds_of(call.in.bytes, step));
  const bool is_root = run.rank == call.peer;
  if (is_root)
    run.keep(call.out_pieces[run.rank].at, call.in.at, call.in.bytes);
  for (uint32_t round = 0; round < rounds && !run.failed(); ++round) {
    if (!is_root) {
      const Piece own = part_of(call.in, round * step, step);
      run.show(round, own.at, own.bytes);
    }
    for (int r = 0; is_root && r < run.size; ++r) {
      const Piece to = part_of(call.out_pieces[r], round * step, step);
      if (r == run.rank) continue;
      const char* const from = run.look(r, round, to.bytes);
      if (from == nullptr) return;
      run.take(r, to.at, from, to.bytes);
    }
    // A rank that reads nothing acknowledges too: the others wait for that
    // before they reuse their staging.
    run.done(round);
  }
  run.finish(is_root);
}

void run_scatter(Run& run) {
  const EngineOp& call = run.call;
  const size_t step = step_of_blocks(run, call.out, kMostInRound);
  const auto rounds = static_cast<uint32_t>(rounds_of(call.out.bytes, step));
  const bool is_root = run.rank == call.peer;
  for (uint32_t round = 0; round < rounds && !run.failed(); ++round) {
    if (is_root) {
      show_parts(run, round, call.in_pieces, step);
    } else {
      take_part(run, call.peer, round, call.out, step);
      run.done(round);
    }
  }
  if (is_root && !run.failed())
    run.keep(call.out.at, call.in_pieces[run.rank].at, call.out.bytes);
  run.finish(false);
}

void run_all_to_all(Run& run) {
  const EngineOp& call = run.call;
  const Piece own = call.in_pieces[run.rank];
  const size_t all = static_cast<size_t>(run.size) * own.bytes;
  run.expect(all, all);
  run.share_caches(all);
  const size_t step = step_of_blocks(run, own, kMostExchanged);
  const auto rounds = static_cast<uint32_t>(rounds_of(own.bytes, step));
  for (uint32_t turn = 0; turn < rounds + 1 && !run.failed(); ++turn) {
    if (turn < rounds) {
      show_parts(run, turn, call.in_pieces, step);
      const Piece to = part_of(call.out_pieces[run.rank], turn * step, step);
      run.keep(to.at, part_of(own, turn * step, step).at, to.bytes);
    }
    if (turn == 0) continue;
    for (int i = 0; i < run.size - 1 && !run.failed(); ++i) {
      const int r = nth_other(run, i);
      take_part(run, r, turn - 1, call.out_pieces[r], step);
    }
    if (turn < rounds) run.done(turn - 1);
  }
  run.finish(true);
}

}  // namespace shm_backend
