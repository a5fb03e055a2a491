// An exchange and a gather of strided pieces (the extension distwrap.blocks). A
// rank stages the runs of a block where it would stage a packed piece, and
// takes them out to where they belong: two copies and no pass to pack. Blocks
// in memory that the backend has allocated are read where they lie: one copy.
//
// In an exchange a rank publishes a cell for each other rank, and then in
// rounds what it has staged for it; in a gather one cell and what it has staged
// for all. A rank that lends its memory stays until all have read.
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

// Reads a block where it lies in the memory of `from`. What that rank says of
// it is checked before it serves as a place.
void read_lent(Run& run, int from, uint64_t place, const dw_block& block,
               const dw_block& to, uint64_t want) {
  uint64_t bytes, upto;
  if (!dw_sdk::measure(block, &bytes, &upto) || bytes != want)
    return run.fail_nonsense(from);
  run.borrow();
  const char* const base = run.comm->room.find(from, static_cast<size_t>(place),
                                               static_cast<size_t>(upto));
  if (base == nullptr)
    return run.fail_missing(from, static_cast<size_t>(place));
  dw_sdk::move_block(run.call.out.at, to, base, block, 0, bytes,
                     [&](char* at, const char* data, size_t some) {
                       run.take(from, at, data, some);
                     });
}

// Stages the bytes of a block from `begin` to `end`.
void stage_block(Run& run, char* staged, const dw_block& block, size_t begin,
                 size_t end) {
  const char* const base = run.call.in.at;
  const bool past = run.comm->goes_past(end - begin);
  if (past && block.run < kPage) {
    // Non-temporal stores of short runs would wait for each other, and others
    // for lines that a distant processor has. So a page is packed first.
    alignas(kLine) char page[kPage];
    for (size_t at = begin, bytes; at < end; at += bytes) {
      bytes = std::min(end - at, kPage);
      dw_sdk::gather(page, base, block, at, at + bytes, copy);
      copy_for_peers(staged + (at - begin), page, bytes, true);
    }
    return;
  }
  dw_sdk::gather(staged, base, block, begin, end,
                 [past](char* to, const char* data, size_t bytes) {
                   copy_for_peers(to, data, bytes, past);
                 });
}

// Takes the bytes of a block that `from` has staged.
void take_staged(Run& run, int from, const dw_block& block, const char* staged,
                 size_t begin, size_t end) {
  dw_sdk::scatter(run.call.out.at, block, staged, begin, end,
                  [&](char* to, const char* data, size_t bytes) {
                    run.take(from, to, data, bytes);
                  });
}

// Copies the bytes of this rank's own block.
void keep_block(Run& run, const dw_block& to, const dw_block& from,
                size_t begin, size_t end) {
  dw_sdk::move_block(run.call.out.at, to, run.call.in.at, from, begin, end,
                     [&](char* at, const char* data, size_t bytes) {
                       run.keep(at, data, bytes);
                     });
}

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
  size_t place_ = 0;    // 0: not lent; else where the input lies in the heap
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
  if (last != 0)
    place_ = run_.lend_in({run_.call.in.at, static_cast<size_t>(last)});
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
    stage_block(run_, block + next, given(to), from, upto);
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
  take_staged(run_, from, taken(from), data, first, last);
}

void BlockExchange::take_lent(int from, const BlockCell& cell) {
  lent_[static_cast<size_t>(from)] = true;
  read_lent(run_, from, cell.place, cell.block, taken(from), cell.gives);
}

void BlockExchange::keep_own(size_t upto) {
  const size_t last = std::min(takes(run_.rank), upto);
  if (last <= kept_) return;
  keep_block(run_, taken(run_.rank), given(run_.rank), kept_, last);
  kept_ = last;
}

// The head of what a rank publishes in each round of a gather.
struct GatherCell {
  uint64_t place;  // as in BlockCell
  dw_block block;

  static constexpr size_t kBytes = 2 * kLine;
};
static_assert(sizeof(GatherCell) <= GatherCell::kBytes);

class BlockGather {
 public:
  explicit BlockGather(Run& run) : run_(run) {}
  void go();

 private:
  const dw_block& given() const { return run_.call.blocks->in[0]; }
  const dw_block& taken(int from) const { return run_.call.blocks->out[from]; }
  size_t bytes_of(int rank) const { return run_.call.out_pieces[rank].bytes; }
  size_t at(size_t round, int rank) const {
    return std::min(round * step_, bytes_of(rank));
  }

  void lend();
  void show(uint32_t round);
  void take(int from, uint32_t round);

  Run& run_;
  size_t step_ = 0;  // most bytes of a block in a round
  size_t place_ = 0;
  std::vector<bool> lent_;  // by rank: its block has been read
};

void BlockGather::go() {
  const size_t longest = run_.call.out_pieces.longest();
  size_t result = 0;
  for (int r = 0; r < run_.size; ++r) result += bytes_of(r);
  run_.expect(result, longest);
  run_.share_caches(result);
  // As in an all_gather, beside the head; in rounds of one size.
  const size_t most =
      std::clamp(
          run_.ring() / 4 / kLine * kLine, kLine + GatherCell::kBytes,
          run_.comm->oversubscribed ? kMostInRound / 2 : 2 * kMostInRound) -
      GatherCell::kBytes;
  // A rank without elements publishes the first round, too, so that all know
  // that it has come.
  const size_t rounds = std::max<size_t>(1, rounds_of(longest, most));
  step_ = std::max(kLine, whole_lines((longest + rounds - 1) / rounds));
  lent_.assign(static_cast<size_t>(run_.size), false);
  lend();
  for (size_t turn = 0; turn < rounds + 1 && !run_.failed(); ++turn) {
    if (turn < rounds) {
      show(static_cast<uint32_t>(turn));
      keep_block(run_, taken(run_.rank), given(), at(turn, run_.rank),
                 at(turn + 1, run_.rank));
    }
    if (turn == 0) continue;
    const auto round = static_cast<uint32_t>(turn - 1);
    for (int i = 1; i < run_.size && !run_.failed(); ++i)
      take((run_.rank + i) % run_.size, round);
    if (turn < rounds) run_.done(round);
  }
  if (run_.failed()) return;
  place_ != 0 ? run_.finish_together() : run_.finish(true);
}

void BlockGather::lend() {
  uint64_t bytes, upto;
  if (bytes_of(run_.rank) != 0 && dw_sdk::measure(given(), &bytes, &upto))
    place_ = run_.lend_in({run_.call.in.at, static_cast<size_t>(upto)});
}

void BlockGather::show(uint32_t round) {
  const size_t first = at(round, run_.rank), last = at(round + 1, run_.rank);
  if (round != 0 && (place_ != 0 || first == last)) return;
  if (run_.has_shown(round)) return;
  const size_t staged = place_ == 0 ? last - first : 0;
  char* const to = run_.prepare(round, GatherCell::kBytes + staged, true);
  if (to == nullptr) return;
  const GatherCell cell = {place_,
                           bytes_of(run_.rank) == 0 ? dw_block{} : given()};
  std::memcpy(to, &cell, sizeof cell);
  if (staged != 0)
    stage_block(run_, to + GatherCell::kBytes, given(), first, last);
  run_.show_prepared(round);
}

void BlockGather::take(int from, uint32_t round) {
  const size_t first = at(round, from), last = at(round + 1, from);
  if (lent_[static_cast<size_t>(from)] || (round != 0 && first == last)) return;
  const char* const seen =
      run_.look(from, round, Run::kStaged, 0, sizeof(GatherCell));
  if (seen == nullptr || first == last) return;
  GatherCell cell;
  std::memcpy(&cell, seen, sizeof cell);
  if (cell.place != 0) {
    lent_[static_cast<size_t>(from)] = true;
    return read_lent(run_, from, cell.place, cell.block, taken(from),
                     bytes_of(from));
  }
  const char* const data =
      run_.look(from, round, Run::kStaged, GatherCell::kBytes, last - first);
  if (data != nullptr) take_staged(run_, from, taken(from), data, first, last);
}

}  // namespace

void run_blocks(Run& run) { BlockExchange(run).go(); }
void run_block_gather(Run& run) { BlockGather(run).go(); }

}  // namespace shm_backend
