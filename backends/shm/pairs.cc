// Operations in which each pair of ranks has a size of its own that no other
// rank knows: the v forms of all_to_all, gather and scatter.
//
// The pieces of an all_to_all may be rows that lie apart (abi/moe.h). Then a
// piece is a stream of bytes: its rows are gathered into the staging and
// scattered from there, and nobody packs them. Rows that are added up go in
// whole rows, if a round has room for one. Two ranks with many rows for each
// other first tell each other in round 0 what they lend: lent rows do not pass
// the staging (lent_rows.h), and staged ones begin in round 1.
//
// A rank that gives publishes a cell for each rank that takes: how much there
// is, and where it is staged, or as much of it as goes in one round. Short
// pieces are in the cell, and a cell that only one rank reads is in the slot.
// So a pair that moves little needs one slot, as in a short call.
//
// Large pieces may go by CMA instead. The giver decides for each piece, and the
// pair moves it after all rounds. The taker measures for each size which way is
// faster, and tells the giver (`Lending`).
#include "pairs.h"

#include "lent_rows.h"
#include "parts.h"
#include "row_results.h"
#include "run.h"
#include "straight.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <utility>

namespace shm_backend {
namespace {

// Bytes of this rank's own piece that it copies while the others' pieces are
// coming, also where CMA moves those and copies the rest.
constexpr size_t kSoon = 16 << 10;
// From this size on a row is written past the caches in an operation that
// outgrows them.
constexpr size_t kLongRow = 1 << 10;
// The round behind all rounds of staging.
constexpr uint32_t kStraightRound = kLastRound - 1;

class Exchange {
 public:
  explicit Exchange(Run& run)
      : run_(run),
        kind_(run.call.kind),
        is_root_(run.call.peer == run.rank),
        in_line_(run.size == 2 || kind_ == DW_OP_GATHER),
        adds_(run.call.has_rows && run.call.rows.sums().adds()),
        step_(step_of(run)),
        results_(run),
        lent_(run, adds_) {}
  void go();

 private:
  static size_t step_of(const Run& run) {
    const size_t step = run.comm->pair_part;
    if (!run.call.has_rows || !run.call.rows.has_sums()) return step;
    const size_t row = run.call.rows.row_bytes();
    return row <= step ? step / row * row : step;
  }
  bool gives_to(int other) const {
    return other != run_.rank &&
           (kind_ == DW_OP_ALL_TO_ALL ||
            (kind_ == DW_OP_SCATTER ? is_root_ : other == run_.call.peer));
  }
  bool takes_from(int other) const {
    return other != run_.rank &&
           (kind_ == DW_OP_ALL_TO_ALL ||
            (kind_ == DW_OP_GATHER ? is_root_ : other == run_.call.peer));
  }
  // The piece for or from a rank; empty where there is none. Rows have no
  // address.
  Piece given(int to) const {
    if (!gives_to(to)) return {};
    return kind_ == DW_OP_GATHER ? run_.call.in : run_.call.in_pieces[to];
  }
  Piece taken(int from) const {
    if (!takes_from(from)) return {};
    return kind_ == DW_OP_SCATTER ? run_.call.out : run_.call.out_pieces[from];
  }
  // The piece from this rank to itself.
  Piece own_given() const {
    return kind_ == DW_OP_GATHER ? run_.call.in
                                 : run_.call.in_pieces[run_.rank];
  }
  Piece own_taken() const {
    if (!is_root_ && kind_ != DW_OP_ALL_TO_ALL) return {};
    return kind_ == DW_OP_SCATTER ? run_.call.out
                                  : run_.call.out_pieces[run_.rank];
  }
  Pair& pair(int other) const {
    return run_.comm->pairs[static_cast<size_t>(other)];
  }
  CmaPiece& lane(int from, int to) const {
    return run_.comm->room.lane(from, to);
  }

  // Whether this rank and another one tell each other what they lend.
  bool is_told(int other) const {
    return run_.call.has_rows && other != run_.rank &&
           LentRows::is_told(given(other).bytes, taken(other).bytes);
  }
  // Bytes of a piece that pass the staging.
  size_t staged_for(int to) const {
    if (pair(to).gives_straight) return 0;
    const size_t bytes = given(to).bytes;
    return is_told(to) ? lent_.staged(pair(to).rows_given, bytes) : bytes;
  }
  size_t staged_from(int from) const {
    if (pair(from).takes_straight) return 0;
    const size_t bytes = taken(from).bytes;
    return is_told(from) ? lent_.staged(pair(from).rows_come, bytes) : bytes;
  }
  // The rows that are staged: all channels, or those that are not lent.
  const dw_sdk::MoeRows& rows_by(RowWay way) const {
    return way == RowWay::kStaged ? run_.call.rows : rest_;
  }

  void choose_ways();
  void choose_way(int other);
  bool may_go_straight(size_t bytes) const;
  // Where a round's part of a piece begins, and its bytes.
  struct Part {
    size_t begin, bytes;
  };
  Part part_in(uint32_t round, int other, size_t bytes) const {
    if (is_told(other) && round-- == 0) return {0, 0};
    const size_t begin = std::min(bytes, round * step_);
    return {begin, std::min(step_, bytes - begin)};
  }
  // The bytes that a piece fills in the caller's buffers: rows may have several
  // places. Results are counted apart.
  size_t placed(int from, size_t bytes) const {
    if (adds_) return 0;
    return run_.call.has_rows && bytes != 0
               ? run_.call.rows.placed_bytes(from, bytes)
               : bytes;
  }
  // Copies a part of what this rank gives, and of what it takes; that is
  // `stays`: at its place until the round is done.
  void stage(int to, Part part, char* data) const;
  void land(int from, Part part, const char* data, bool stays);
  uint32_t rounds_for(int other, size_t bytes) const {
    return static_cast<uint32_t>(rounds_of(bytes, step_)) +
           (is_told(other) ? 1 : 0);
  }
  void show(uint32_t round);
  void take(int from, uint32_t round);
  void take_all(uint32_t round);
  void agree(int other, const RowOffer& theirs);
  void move_rounds();
  void move_lent();
  // Copies this rank's own piece up to byte `upto`.
  void keep_own(size_t upto = SIZE_MAX);
  bool move_straight();
  void tell();

  Run& run_;
  const uint16_t kind_;
  const bool is_root_, in_line_, adds_;
  const size_t step_;  // most bytes of a piece in a round
  RowResults results_;
  LentRows lent_;
  dw_sdk::MoeRows rest_;  // the channels that are not lent
  bool tells_ = false;    // some ranks what this one lends
  bool gives_ = false, takes_ = false, straight_ = false, tries_ = false;
  uint32_t sends_ = 0, receives_ = 0;  // rounds
  size_t kept_ = 0;                    // bytes of the own piece that are copied
  int64_t began_ns_ = 0;
};

void Exchange::go() {
  if (adds_ && !results_.begin()) return;
  choose_ways();
  if (tells_) lent_.offer();
  move_rounds();
  if (!run_.failed() && straight_ && !move_straight()) return;
  if (tells_ && !run_.failed()) move_lent();
  if (!run_.failed()) {
    if (tries_) tell();
    keep_own();
    lent_.lends() ? run_.finish_together()
                  : run_.finish(takes_ && kind_ != DW_OP_SCATTER);
  }
  if (!tells_) return;
  run_.failed() ? lent_.give_up() : lent_.learn();
}

bool Exchange::may_go_straight(size_t bytes) const {
  return run_.comm->straight && !run_.call.has_rows &&
         bytes > Lending::kMoreThan &&
         bytes >= tried_from(*run_.comm, run_.call);
}

// A pair moves both pieces by the way of the larger one: to use all rounds for
// one and then wait for the other would be slowest.
void Exchange::choose_way(int other) {
  Pair& pair = this->pair(other);
  const size_t gives = given(other).bytes, takes = taken(other).bytes;
  const bool may_give = may_go_straight(gives);
  const bool may_take = may_go_straight(takes);
  const bool by_taken = may_take && (!may_give || takes > gives ||
                                     (takes == gives && run_.rank < other));
  pair.gives_straight = pair.takes_straight = pair.tries = false;
  pair.rows_given = pair.rows_come = RowWay::kStaged;
  if (by_taken) {
    pair.takes.heard(pair.takes.preferred());
    pair.gives_straight = may_give && pair.takes.lends(takes, pair.taken);
    pair.tries = pair.takes.is_try(takes, pair.taken++);
    tries_ |= pair.tries;
  } else if (may_give) {
    pair.gives.heard(
        lane(run_.rank, other).prefers.load(std::memory_order_relaxed));
    pair.gives_straight = pair.gives.lends(gives, pair.given);
    tries_ |= pair.gives.is_try(gives, pair.given++);
  }
}

void Exchange::choose_ways() {
  size_t input = own_taken().bytes, result = placed(run_.rank, input);
  for (int other = 0; other < run_.size; ++other) {
    if (other == run_.rank) continue;
    Pair& pair = this->pair(other);
    const size_t gives = given(other).bytes, takes = taken(other).bytes;
    result += placed(other, takes);
    input += gives;
    gives_ |= gives_to(other);
    takes_ |= takes_from(other);
    choose_way(other);
    straight_ |= pair.gives_straight;
    if (is_told(other))
      tells_ = true;
    else if (!pair.gives_straight)
      sends_ = std::max(sends_, rounds_for(other, gives));
  }
  if (gives_) sends_ = std::max(sends_, 1u);
  if (takes_) receives_ = 1;
  if (adds_) {
    const dw_sdk::MoeSums& sums = run_.call.rows.sums();
    result += static_cast<size_t>(sums.results()) * sums.result_bytes();
  }
  run_.expect(result, input);
  if (tries_) began_ns_ = run_.comm->host->now_ns(run_.comm->host->self);
}

// ---- rounds of staging ----

void Exchange::stage(int to, Part part, char* data) const {
  if (part.bytes == 0) return;
  const Comm& comm = *run_.comm;
  if (!run_.call.has_rows)
    return comm.stage_copy(data, given(to).at + part.begin, part.bytes);
  rows_by(pair(to).rows_given)
      .gather(to, part.begin, part.bytes, data,
              [&](char* into, const char* row, size_t bytes) {
                comm.stage_copy(into, row, bytes);
              });
}

void Exchange::land(int from, Part part, const char* data, bool stays) {
  if (adds_) return results_.hold(from, part.begin, data, part.bytes, stays);
  if (!run_.call.has_rows)
    return run_.take(from, taken(from).at + part.begin, data, part.bytes);
  rows_by(pair(from).rows_come)
      .scatter(from, part.begin, part.bytes, data,
               [&](char* into, const char* row, size_t bytes) {
                 if (run_.past_caches() && bytes >= kLongRow)
                   return copy_past_caches(into, row, bytes);
                 run_.take(from, into, row, bytes);
               });
}

void Exchange::move_rounds() {
  for (uint32_t turn = 0;
       turn < std::max(sends_, receives_ + 1) && !run_.failed(); ++turn) {
    // This rank does not stage rows that others lend.
    if (turn == 1 && tells_) take_all(0);
    if (turn < sends_) show(turn);
    keep_own(straight_ ? kSoon : (turn + size_t{1}) * step_);
    if (turn == 0) continue;
    const uint32_t round = turn - 1;
    if (round != 0 || !tells_) take_all(round);
    if (adds_ && !run_.failed()) results_.add();
    // All other ranks wait for this before they reuse their staging, even from
    // a rank that reads nothing.
    if (turn < std::max(sends_, receives_)) run_.done(round);
  }
}

void Exchange::take_all(uint32_t round) {
  for (int r = 0; r < run_.size && !run_.failed(); ++r)
    if (takes_from(r) && round < receives_) take(r, round);
}

void Exchange::show(uint32_t round) {
  if (run_.has_shown(round)) return;
  const auto is_staged = [&](int to, size_t bytes) {
    return !pair(to).gives_straight && (is_told(to) || !Cell::holds(bytes));
  };
  const size_t table = in_line_ ? 0 : Cell::place(run_.size);
  size_t total = table;
  for (int to = 0; to < run_.size; ++to)
    if (gives_to(to) && is_staged(to, given(to).bytes))
      total += whole_lines(part_in(round, to, staged_for(to)).bytes);
  char* const block = total == 0 ? nullptr : run_.prepare(round, total, true);
  if (run_.failed()) return;
  size_t next = table;
  for (int to = 0; to < run_.size; ++to) {
    if (!gives_to(to)) continue;
    const size_t whole = given(to).bytes;
    const Part part = part_in(round, to, staged_for(to));
    const bool is_straight = pair(to).gives_straight;
    Cell cell = {
        whole | (is_straight ? Cell::kStraight : 0), taken(to).bytes, {}};
    if (round == 0 && is_told(to)) {
      cell.set_offer(lent_.offer_to(to));
    } else if (is_staged(to, whole) || is_straight) {
      cell.set({next, began_ns_});
      if (!is_straight) {
        stage(to, part, block + next);
        next += whole_lines(part.bytes);
      }
    } else if (round == 0) {
      stage(to, part, cell.inside);
    }
    std::memcpy(in_line_ ? run_.beside(sizeof cell) : block + Cell::place(to),
                &cell, sizeof cell);
  }
  run_.show_prepared(round);
}

// Takes this rank's part of what `from` has published. The pair has to agree on
// both sizes.
void Exchange::take(int from, uint32_t round) {
  const size_t whole = taken(from).bytes;
  const Part part = part_in(round, from, staged_from(from));
  Pair& pair = this->pair(from);
  if (round != 0 && part.bytes == 0) return;
  const char* const seen =
      in_line_ ? run_.look(from, round, sizeof(Cell))
               : run_.look(from, round, Run::kStaged, Cell::place(run_.rank),
                           sizeof(Cell));
  if (seen == nullptr) return;
  Cell cell;
  std::memcpy(&cell, seen, sizeof cell);
  const bool is_straight = (cell.gives & Cell::kStraight) != 0;
  if ((cell.gives & ~Cell::kStraight) != whole ||
      cell.takes != given(from).bytes)
    return run_.fail_mismatch(from);
  if (round == 0 && is_told(from)) return agree(from, cell.offer());
  if (Cell::holds(whole) && !is_straight && !is_told(from))
    return land(from, part, cell.inside, false);
  const Cell::Staged staged = cell.staged();
  if (round == 0) {
    if (is_straight && !may_go_straight(whole)) return run_.fail_nonsense(from);
    pair.began_ns = staged.began_ns;
    pair.takes_straight = is_straight;
    straight_ |= is_straight;
    if (!is_straight) receives_ = std::max(receives_, rounds_for(from, whole));
  }
  if (is_straight || part.bytes == 0) return;
  if (staged.at > run_.comm->room.arena()->plot_bytes())
    return run_.fail_nonsense(from);
  const char* const data =
      run_.look(from, round, Run::kStaged, staged.at, part.bytes);
  if (data != nullptr) land(from, part, data, true);
}

// The ways of the rows between this rank and another one are known.
void Exchange::agree(int other, const RowOffer& theirs) {
  lent_.agree(other, theirs);
  if (run_.failed()) return;
  const Pair& pair = this->pair(other);
  sends_ = std::max(sends_, rounds_for(other, staged_for(other)));
  receives_ = std::max(receives_, rounds_for(other, staged_from(other)));
  if (pair.rows_come == RowWay::kRead) results_.borrow(other, pair.list);
  if (pair.rows_given != RowWay::kWritten && pair.rows_come != RowWay::kWritten)
    return;
  dw_ext_moe rest = run_.call.rows.lists();
  ++rest.channels;
  --rest.n_channels;
  rest_.set(rest);
}

// Writes rows to memory that others lend, a part for each in turn: a row that
// goes to several ranks is read while it is in the caches.
void Exchange::move_lent() {
  bool more = true;
  for (size_t upto = step_; more && !run_.failed(); upto += step_) {
    more = false;
    for (int to = 0; to < run_.size; ++to)
      if (is_told(to)) more |= lent_.write(to, upto);
    if (more) keep_own(upto);
  }
}

void Exchange::keep_own(size_t upto) {
  const Piece to = own_taken();
  const size_t end = std::min(to.bytes, upto);
  if (end <= kept_) return;
  if (run_.call.has_rows)
    run_.call.rows.keep(run_.rank, kept_, end - kept_,
                        [&](char* into, const char* row, size_t bytes) {
                          run_.keep(into, row, bytes);
                        });
  else
    run_.keep(to.at + kept_, own_given().at + kept_, end - kept_);
  kept_ = end;
}

// ---- from buffer to buffer ----

bool Exchange::move_straight() {
  // This rank does not hold up the ranks that have more rounds.
  run_.done(kStraightRound - 1);
  Straight move(run_, 4, kStraightRound);
  for (int other = 0; other < run_.size; ++other) {
    if (other == run_.rank) continue;
    if (pair(other).gives_straight) move.give(other, given(other));
    if (pair(other).takes_straight) move.take(other, taken(other));
  }
  const Piece to = own_taken();
  const size_t kept = std::exchange(kept_, to.bytes);
  move.keep(part_of(to, kept, to.bytes), part_of(own_given(), kept, to.bytes));
  return move.go();
}

// Tells the givers which way was faster.
void Exchange::tell() {
  const dw_host_api& host = *run_.comm->host;
  const int64_t now_ns = host.now_ns(host.self);
  for (int from = 0; from < run_.size; ++from) {
    if (!takes_from(from)) continue;
    Pair& pair = this->pair(from);
    if (!pair.tries) continue;
    // Timed from when both ranks had entered, since waiting is not the way's
    // fault.
    pair.takes.took(taken(from).bytes, pair.takes_straight,
                    now_ns - std::max(began_ns_, pair.began_ns));
    lane(from, run_.rank)
        .prefers.store(pair.takes.preferred(), std::memory_order_relaxed);
  }
}

}  // namespace

size_t pair_part(const Comm& comm) {
  const auto n = static_cast<size_t>(comm.size);
  const size_t most = comm.stage.most();
  const size_t table = std::min(most, Cell::place(comm.size));
  return std::clamp((most - table) / n / kLine * kLine, kLine, kMostInRound);
}

void run_pairs(Run& run) { Exchange(run).go(); }

}  // namespace shm_backend
