// An exchange of strided pieces (the extension distwrap.blocks). A rank stages
// the runs of a block where it would stage a packed piece, and takes them out
// to where they belong: two copies and no pass to pack. Blocks in memory that
// the backend has allocated are read where they lie: one copy.
//
// A rank publishes a cell for each other rank, and then in rounds what it has
// staged for it. A rank that lends its memory stays until all have read.
#include "sdk/blocks.h"

#include "parts.h"
#include "run.h"

#include <algorithm>
#include <cstring>
#include <vector>

namespace shm_backend {
namespace {

// The message of a rank to another one.
struct BlockCell {
  uint64_t gives, takes;  // bytes of the blocks
  uint64_t place;   // 0: staged; else where the giver's buffer lies in its heap
  uint64_t staged;  // offset in the round's staged data
  dw_block block;   // in the giver's buffer, where that is lent

  static constexpr size_t kBytes = 2 * kLine;
  static constexpr size_t at(int rank) {
    return static_cast<size_t>(rank) * kBytes;
  }
};
static_assert(sizeof(BlockCell) <= BlockCell::kBytes);

class BlockExchange {
 public:
  explicit BlockExchange(Run& run);
  void go();

 private:
  const dw_block& given(int to) const { return run_.call.blocks->in[to]; }
  const dw_block& taken(int from) const { return run_.call.blocks->out[from]; }
  size_t gives(int to) const { return run_.call.in_pieces[to].bytes; }
  size_t takes(int from) const { return run_.call.out_pieces[from].bytes; }
  uint32_t rounds_for(size_t bytes) const {
    return static_cast<uint32_t>(rounds_of(bytes, step_));
  }
  // The part of `bytes` that goes in a round.
  size_t begin(uint32_t round, size_t bytes) const {
    return std::min(round * step_, bytes);
  }
  size_t end(uint32_t round, size_t bytes) const {
    return std::min((round + size_t{1}) * step_, bytes);
  }
  template <class Body>
  void for_others(const Body& body) const {
    for (int r = 0; r < run_.size; ++r)
      if (r != run_.rank) body(r);
  }

  void lend();
  void show(uint32_t round);
  void take(int from, uint32_t round);
  void take_lent(int from, const BlockCell& cell);
  // Copies this rank's own block up to byte `upto`.
  void keep_own(size_t upto);

  Run& run_;
  const size_t table_;  // bytes
  const size_t step_;   // most bytes of a block in a round
  char* const in_;
  char* const out_;
  size_t place_ = 0;  // 0: not lent; else where the input lies in the heap
  uint32_t sends_ = 1, receives_ = 1;
  size_t kept_ = 0;         // bytes of the own block that are copied
  std::vector<bool> lent_;  // by rank: its block has been read
};

size_t step_of(const Run& run, size_t table) {
  const size_t most = run.comm->stage.most();
  return std::clamp((most - std::min(most, table)) /
                        static_cast<size_t>(run.size) / kLine * kLine,
                    kLine, kMostInRound);
}

BlockExchange::BlockExchange(Run& run)
    : run_(run),
      table_(BlockCell::at(run.size)),
      step_(step_of(run, table_)),
      in_(run.call.in.at),
      out_(run.call.out.at),
      lent_(static_cast<size_t>(run.size)) {}

void BlockExchange::go() {
  size_t result = 0, input = 0;
  for (int r = 0; r < run_.size; ++r) {
    result += takes(r);
    input += gives(r);
  }
  run_.expect(result, input);
  lend();
  if (place_ == 0)
    for_others(
        [&](int to) { sends_ = std::max(sends_, rounds_for(gives(to))); });
  for (uint32_t turn = 0;
       turn < std::max(sends_, receives_ + 1) && !run_.failed(); ++turn) {
    if (turn < sends_) show(turn);
    keep_own((turn + size_t{1}) * step_);
    if (turn == 0) continue;
    const uint32_t round = turn - 1;
    if (round < receives_) for_others([&](int from) { take(from, round); });
    if (turn < std::max(sends_, receives_)) run_.done(round);
  }
  if (run_.failed()) return;
  keep_own(SIZE_MAX);
  place_ != 0 ? run_.finish_together() : run_.finish(true);
}

// Lends the input from its first byte to the end of the last block.
void BlockExchange::lend() {
  uint64_t last = 0;
  for_others([&](int to) {
    uint64_t bytes, upto;
    if (gives(to) != 0 && dw_sdk::measure(given(to), &bytes, &upto))
      last = std::max(last, upto);
  });
  if (last != 0) place_ = run_.lend_in({in_, static_cast<size_t>(last)});
}

void BlockExchange::show(uint32_t round) {
  if (run_.has_shown(round)) return;
  size_t total = table_;
  if (place_ == 0)
    for_others([&](int to) {
      total += whole_lines(end(round, gives(to)) - begin(round, gives(to)));
    });
  char* const block = run_.prepare(round, total, true);
  if (block == nullptr) return;
  size_t next = table_;
  for_others([&](int to) {
    const size_t from = begin(round, gives(to)), upto = end(round, gives(to));
    const BlockCell cell = {gives(to), takes(to), place_, next,
                            gives(to) == 0 ? dw_block{} : given(to)};
    std::memcpy(block + BlockCell::at(to), &cell, sizeof cell);
    if (place_ != 0) return;
    // Non-temporal stores of short runs would wait for each other.
    const bool past =
        given(to).run >= kPage && run_.comm->goes_past(upto - from);
    dw_sdk::gather(block + next, in_, given(to), from, upto,
                   [past](char* staged, const char* data, size_t bytes) {
                     copy_for_peers(staged, data, bytes, past);
                   });
    next += whole_lines(upto - from);
  });
  run_.show_prepared(round);
}

void BlockExchange::take(int from, uint32_t round) {
  const size_t all = takes(from);
  if (run_.failed() || (round != 0 && (all <= round * step_ ||
                                       lent_[static_cast<size_t>(from)])))
    return;
  const char* const seen = run_.look(
      from, round, Run::kStaged, BlockCell::at(run_.rank), sizeof(BlockCell));
  if (seen == nullptr) return;
  BlockCell cell;
  std::memcpy(&cell, seen, sizeof cell);
  if (cell.gives != all || cell.takes != gives(from))
    return run_.fail_mismatch(from);
  if (all == 0) return;
  if (cell.place != 0) return take_lent(from, cell);
  if (round == 0) receives_ = std::max(receives_, rounds_for(all));
  if (cell.staged > run_.comm->room.arena()->plot_bytes())
    return run_.fail_nonsense(from);
  const size_t first = begin(round, all), last = end(round, all);
  const char* const data =
      run_.look(from, round, Run::kStaged, cell.staged, last - first);
  if (data == nullptr) return;
  dw_sdk::scatter(out_, taken(from), data, first, last,
                  [&](char* to, const char* staged, size_t bytes) {
                    run_.take(from, to, staged, bytes);
                  });
}

// Reads the block where it lies. What the cell says is checked before it serves
// as a place.
void BlockExchange::take_lent(int from, const BlockCell& cell) {
  uint64_t bytes, upto;
  if (!dw_sdk::measure(cell.block, &bytes, &upto) || bytes != cell.gives)
    return run_.fail_nonsense(from);
  run_.borrow();
  lent_[static_cast<size_t>(from)] = true;
  const char* const base = run_.comm->room.find(
      from, static_cast<size_t>(cell.place), static_cast<size_t>(upto));
  if (base == nullptr)
    return run_.fail_missing(from, static_cast<size_t>(cell.place));
  dw_sdk::move_block(out_, taken(from), base, cell.block, 0, bytes,
                     [&](char* to, const char* data, size_t some) {
                       run_.take(from, to, data, some);
                     });
}

void BlockExchange::keep_own(size_t upto) {
  const size_t last = std::min(takes(run_.rank), upto);
  if (last <= kept_) return;
  dw_sdk::move_block(out_, taken(run_.rank), in_, given(run_.rank), kept_, last,
                     [&](char* to, const char* from, size_t bytes) {
                       run_.keep(to, from, bytes);
                     });
  kept_ = last;
}

}  // namespace

void run_blocks(Run& run) { BlockExchange(run).go(); }

}  // namespace shm_backend
