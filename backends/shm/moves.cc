// Operations that move data and do not change them.
#include "run.h"

#include <algorithm>
#include <cstring>

namespace shm_backend {
namespace {

constexpr size_t kPart = 128 << 10;

size_t up(size_t bytes) { return (bytes + kLine - 1) / kLine * kLine; }

// The largest part of a piece in one round, of a block of so many.
size_t largest_part(const Run& run, size_t parts) {
  const size_t fits = run.comm->stage.most() / parts / kLine * kLine;
  return std::clamp(fits, kLine, kPart);
}

Piece part_of(Piece piece, size_t at, size_t step) {
  const size_t begin = std::min(piece.bytes, at);
  return {piece.at + begin, std::min(step, piece.bytes - begin)};
}

size_t rounds_of(size_t bytes, size_t step) {
  return bytes == 0 ? 0 : (bytes + step - 1) / step;
}

// What stands before a block whose parts differ in size, for every rank.
struct Entry {
  uint64_t piece_bytes;  // of the whole operation
  uint64_t offset;       // of this round's part
};

// A block with a part for each rank, of which one may be left out.
void show_parts(Run& run, uint32_t round, const Pieces& pieces, size_t step) {
  if (run.has_shown(round)) return;
  const bool entries = run.call.per_rank();
  const size_t at = round * step;
  const size_t head =
      entries ? up(static_cast<size_t>(run.size) * sizeof(Entry)) : 0;
  size_t total = head;
  for (int to = 0; to < run.size; ++to)
    if (entries)
      total += to == run.rank ? 0 : up(part_of(pieces[to], at, step).bytes);
    else
      total += part_of(pieces[to], at, step).bytes;
  char* const block = run.prepare(round, total, entries);
  if (block == nullptr) return;
  size_t offset = head;
  for (int to = 0; to < run.size; ++to) {
    const Piece part = part_of(pieces[to], at, step);
    if (entries) {
      const Entry entry = {pieces[to].bytes, offset};
      std::memcpy(block + static_cast<size_t>(to) * sizeof entry, &entry,
                  sizeof entry);
      if (to == run.rank) continue;
    }
    if (to != run.rank) copy(block + offset, part.at, part.bytes);
    offset += entries ? up(part.bytes) : part.bytes;
  }
  run.show_prepared(round);
}

// This rank's part of what `from` shows. The pair has to agree on the piece.
void take_part(Run& run, int from, uint32_t round, Piece piece, size_t step) {
  const Piece to = part_of(piece, round * step, step);
  const char* data;
  if (!run.call.per_rank()) {
    const auto n = static_cast<size_t>(run.size);
    data = run.look(from, round, n * to.bytes,
                    static_cast<size_t>(run.rank) * to.bytes, to.bytes);
  } else {
    const char* const at =
        run.look(from, round, Run::kStaged,
                 static_cast<size_t>(run.rank) * sizeof(Entry), sizeof(Entry));
    if (at == nullptr) return;
    Entry entry;
    std::memcpy(&entry, at, sizeof entry);
    if (entry.piece_bytes != piece.bytes) return run.fail_mismatch(from);
    if (entry.offset > run.comm->room.arena()->plot_bytes())
      return run.fail_nonsense(from);
    data = run.look(from, round, Run::kStaged, entry.offset, to.bytes);
  }
  if (data != nullptr) run.take(to.at, data, to.bytes);
}

// With equal pieces, a step that keeps the lines of all parts apart.
size_t step_of_blocks(const Run& run, const Piece& one) {
  const size_t most = largest_part(run, static_cast<size_t>(run.size));
  return run.call.per_rank() ? most
                             : std::min(most, std::max<size_t>(1, one.bytes));
}

}  // namespace

void run_barrier(Run& run) {
  run.show(0, nullptr, 0);
  for (int other = 0; other < run.size; ++other)
    if (other != run.rank && run.look(other, 0, 0) == nullptr) return;
  run.finish(true);
}

void run_broadcast(Run& run) {
  const Call& call = run.call;
  const bool is_root = run.rank == call.peer;
  run.expect(call.out.bytes);
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
      run.take(to.at, from, to.bytes);
    }
    if (at + to.bytes < call.out.bytes) run.done(round);
    if (run.failed()) return;
  }
  run.finish(false);
}

void run_all_gather(Run& run) {
  const Call& call = run.call;
  const size_t step = largest_part(run, 1);
  const size_t longest = call.out_pieces.longest();
  const size_t rounds = rounds_of(longest, step);
  run.expect(static_cast<size_t>(run.size) * longest);
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
    for (int r = 0; r < run.size; ++r) {
      const Piece to = part_of(call.out_pieces[r], round * step, step);
      if (r == run.rank || to.bytes == 0) continue;
      const char* const from = run.look(r, round, to.bytes);
      if (from == nullptr) return;
      run.take(to.at, from, to.bytes);
    }
    if (turn < rounds) run.done(round);
  }
  run.finish(!call.per_rank());
}

void run_gather(Run& run) {
  const Call& call = run.call;
  const size_t step = largest_part(run, 1);
  if (run.rank != call.peer) {
    const uint32_t print = Run::with_size(run.print(), call.in.bytes);
    const size_t rounds = std::max<size_t>(1, rounds_of(call.in.bytes, step));
    for (size_t round = 0; round < rounds && !run.failed(); ++round) {
      const Piece own = part_of(call.in, round * step, step);
      run.show(static_cast<uint32_t>(round), own.at, own.bytes, print);
      // It wants nothing of the others, who wait to hear that for their
      // staging.
      run.done(static_cast<uint32_t>(round));
    }
    run.finish(false);
    return;
  }
  const Piece own = call.out_pieces[run.rank];
  run.keep(own.at, call.in.at, own.bytes);
  const size_t rounds =
      std::max<size_t>(1, rounds_of(call.out_pieces.longest(), step));
  for (size_t at = 0; at < rounds; ++at) {
    const auto round = static_cast<uint32_t>(at);
    for (int r = 0; r < run.size; ++r) {
      const Piece whole = call.out_pieces[r];
      const Piece to = part_of(whole, at * step, step);
      if (r == run.rank || (at > 0 && to.bytes == 0)) continue;
      const char* const from =
          run.look(r, round, to.bytes, 0, to.bytes,
                   Run::with_size(run.print(), whole.bytes));
      if (from == nullptr) return;
      run.take(to.at, from, to.bytes);
    }
    run.done(round);
  }
  run.finish(true);
}

void run_scatter(Run& run) {
  const Call& call = run.call;
  if (run.rank == call.peer) {
    const size_t step = step_of_blocks(run, call.in_pieces[0]);
    const size_t rounds =
        std::max<size_t>(1, rounds_of(call.in_pieces.longest(), step));
    for (size_t round = 0; round < rounds && !run.failed(); ++round)
      show_parts(run, static_cast<uint32_t>(round), call.in_pieces, step);
    const Piece own = call.in_pieces[run.rank];
    run.keep(call.out.at, own.at, own.bytes);
  } else {
    const size_t step = step_of_blocks(run, call.out);
    const size_t rounds = std::max<size_t>(1, rounds_of(call.out.bytes, step));
    for (size_t round = 0; round < rounds && !run.failed(); ++round) {
      take_part(run, call.peer, static_cast<uint32_t>(round), call.out, step);
      run.done(static_cast<uint32_t>(round));
    }
  }
  run.finish(false);
}

void run_all_to_all(Run& run) {
  const Call& call = run.call;
  const size_t step = step_of_blocks(run, call.in_pieces[0]);
  const size_t sends =
      std::max<size_t>(1, rounds_of(call.in_pieces.longest(), step));
  const size_t turns =
      std::max(sends, rounds_of(call.out_pieces.longest(), step));
  run.expect(turns * step * static_cast<size_t>(run.size));
  for (size_t turn = 0; turn < turns + 1 && !run.failed(); ++turn) {
    if (turn < sends)
      show_parts(run, static_cast<uint32_t>(turn), call.in_pieces, step);
    if (turn == 0) continue;
    const size_t round = turn - 1;
    for (int r = 0; r < run.size && !run.failed(); ++r) {
      if (r == run.rank) continue;
      if (round == 0 || call.out_pieces[r].bytes > round * step)
        take_part(run, r, static_cast<uint32_t>(round), call.out_pieces[r],
                  step);
    }
    if (turn < turns) run.done(static_cast<uint32_t>(round));
  }
  if (run.failed()) return;
  const Piece own = call.in_pieces[run.rank];
  run.keep(call.out_pieces[run.rank].at, own.at, own.bytes);
  run.finish(true);
}

}  // namespace shm_backend
