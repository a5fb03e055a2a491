// Reductions in which each rank reduces a share of the elements, over all ranks
// in rank order. So every element is reduced once, and has the same bits on all
// ranks.
//
// Large inputs go chunk by chunk, so that a chunk is still in a cache when it
// is read. A rank publishes the next chunk before it waits for this one.
#include "run.h"

#include <algorithm>

namespace shm_backend {
namespace {

constexpr size_t kSlice = 128 << 10;

// The largest share of a rank in one chunk.
size_t largest_slice(const Run& run) {
  const size_t n = static_cast<size_t>(run.size);
  return std::min(kSlice, run.comm->stage.most() / n / kLine * kLine);
}

// The position of the part for rank `to` in the block of rank `from`. The
// rank's own part comes last, and is there only when it is scaled.
size_t slot(int from, int to, int size) {
  return static_cast<size_t>(to == from ? size - 1 : to < from ? to : to - 1);
}

// One chunk of an all_reduce or reduce.
struct Chunk {
  size_t begin, bytes, share;

  Chunk(size_t number, size_t chunk, size_t all, int size)
      : begin(number * chunk), bytes(std::min(chunk, all - begin)) {
    const auto n = static_cast<size_t>(size);
    share = whole_lines((bytes + n - 1) / n);
  }
  Piece of(int rank, char* base) const {
    const size_t at = std::min(bytes, static_cast<size_t>(rank) * share);
    return {base + begin + at, std::min(share, bytes - at)};
  }
};

void reduce_to_caller(const Run& run, const Reducer& reduce, char* to,
                      const void* const* terms, size_t bytes) {
  if (run.past_caches())
    reduce.fetch_past_caches(to, terms, run.size, bytes);
  else
    reduce.fetch(to, terms, run.size, bytes);
}

class Sliced {
 public:
  explicit Sliced(Run& run)
      : run_(run),
        call_(run.call),
        reduce_(run),
        all_(call_.kind == DW_OP_ALL_REDUCE),
        takes_(all_ || call_.peer == run.rank),
        // Elements in mapped memory are read by the other ranks in place. A
        // rank overwrites its input only where all others have read it.
        lent_(reduce_.scale == nullptr ? run.lend_in() : 0),
        out_(all_ ? run.lend_out() : 0),
        chunk_(largest_slice(run) * static_cast<size_t>(run.size)),
        chunks_((call_.in.bytes + chunk_ - 1) / chunk_) {}

  // Rounds are numbered in the order in which a turn publishes them: the inputs
  // of a chunk, then the results of the chunk before.
  void go() {
    for (size_t turn = 0; turn < chunks_ + 2 && !run_.failed(); ++turn) {
      if (turn < chunks_) show_terms(turn);
      if (turn >= 1 && turn <= chunks_) reduce_share(turn - 1);
      if (turn >= 2 && takes_) take_results(turn - 2);
      if (turn >= 1) run_.done(static_cast<uint32_t>(2 * turn - 1));
    }
    // In an all_reduce this rank has read the results that the others made of
    // its input, but they may still read its own results.
    const bool is_read = all_ ? out_ != 0 : lent_ != 0;
    is_read ? run_.finish_together() : run_.finish(all_);
  }

 private:
  static uint32_t terms_of(size_t chunk) {
    return static_cast<uint32_t>(2 * chunk);
  }
  static uint32_t results_of(size_t chunk) {
    return static_cast<uint32_t>(2 * chunk + 3);
  }
  Chunk chunk(size_t number) const {
    return Chunk(number, chunk_, call_.in.bytes, run_.size);
  }
  size_t block_bytes(const Chunk& chunk) const {
    const int slots = run_.size - (reduce_.scale == nullptr ? 1 : 0);
    return static_cast<size_t>(slots) * chunk.share;
  }

  void show_terms(size_t number) {
    const Chunk now = chunk(number);
    if (lent_ != 0) return run_.show_at(terms_of(number), lent_ + now.begin);
    char* const block = run_.prepare(terms_of(number), block_bytes(now), true);
    if (block == nullptr) return;
    for (int to = 0; to < run_.size; ++to) {
      if (to == run_.rank && reduce_.scale == nullptr) continue;
      const Piece part = now.of(to, call_.in.at);
      char* const at = block + slot(run_.rank, to, run_.size) * now.share;
      reduce_.stage_own(at, part.at, part.bytes);
      if (to == run_.rank) scaled_[number % 2] = at;
    }
    run_.show_prepared(terms_of(number));
  }

  void reduce_share(size_t number) {
    const Chunk now = chunk(number);
    const Piece own = now.of(run_.rank, call_.in.at);
    if (own.bytes == 0) return;
    const void* terms[kMostRanks];
    for (int r = 0; r < run_.size; ++r) {
      if (r == run_.rank)
        terms[r] = reduce_.scale != nullptr ? scaled_[number % 2] : own.at;
      else
        terms[r] = run_.look_at_either(
            r, terms_of(number), slot(r, run_.rank, run_.size) * now.share,
            static_cast<size_t>(run_.rank) * now.share, own.bytes);
      if (terms[r] == nullptr) return;
    }
    const bool is_lent = out_ != 0;
    if (is_lent ||
        (!all_ && takes_)) {  // published where it lies, or not at all
      char* const result = now.of(run_.rank, call_.out.at).at;
      reduce_to_caller(run_, reduce_, result, terms, own.bytes);
      if (is_lent)
        run_.show_at(results_of(number),
                     out_ + static_cast<size_t>(result - call_.out.at));
      return;
    }
    char* const block = run_.prepare(results_of(number), own.bytes, true);
    if (block == nullptr) return;
    char* const kept = takes_ ? now.of(run_.rank, call_.out.at).at : nullptr;
    if (run_.comm->goes_past(own.bytes)) {
      stage_past_caches(block, kept, terms, own.bytes);
      run_.show_prepared(results_of(number));
      return;
    }
    reduce_.fetch(block, terms, run_.size, own.bytes);
    run_.show_prepared(results_of(number));
    if (takes_) run_.keep(kept, block, own.bytes);
  }

  // A result that is kept too is copied first; it would have to come back from
  // memory otherwise.
  void stage_past_caches(char* block, char* kept, const void* const* terms,
                         size_t bytes) {
    if (kept == nullptr)
      return reduce_.fetch_past_caches(block, terms, run_.size, bytes);
    reduce_.fetch(kept, terms, run_.size, bytes);
    copy_past_caches(block, kept, bytes);
  }

  void take_results(size_t number) {
    const Chunk now = chunk(number);
    for (int r = 0; r < run_.size; ++r) {
      const Piece to = now.of(r, call_.out.at);
      if (r == run_.rank || to.bytes == 0) continue;
      const char* const from =
          run_.look(r, results_of(number), Run::kStaged, 0, to.bytes);
      if (from == nullptr) return;
      run_.take(r, to.at, from, to.bytes);
    }
  }

  Run& run_;
  const EngineOp& call_;
  const Reducer reduce_;
  const bool all_, takes_;
  // Places of the input and of an all_reduce's output in the heap; 0: not
  // there.
  const size_t lent_, out_;
  const size_t chunk_, chunks_;
  const char* scaled_[2] = {};
};

// A short input is published as it is: with a part for each rank.
void run_short_reduce_scatter(Run& run, const Reducer& reduce) {
  const EngineOp& call = run.call;
  const size_t each = call.out.bytes;
  const auto place = [&](int r) { return static_cast<size_t>(r) * each; };
  const size_t all = place(run.size);
  if (!run.has_shown(0)) {
    char* const block = run.prepare(0, all);
    if (block == nullptr) return;
    for (int to = 0; to < run.size; ++to)
      run.comm->stage_copy(block + place(to), call.in_pieces[to].at, each);
    run.show_prepared(0);
  }
  const void* terms[kMostRanks];
  for (int r = 0; r < run.size; ++r) {
    terms[r] = r == run.rank ? call.in_pieces[r].at
                             : run.look(r, 0, all, place(run.rank), each);
    if (terms[r] == nullptr) return;
  }
  reduce(call.out.at, terms, run.size, each);
  run.finish(true);
}

}  // namespace

void run_sliced(Run& run) {
  const size_t bytes = run.call.in.bytes;
  run.expect(bytes, bytes);
  Sliced(run).go();
}

void run_reduce_scatter(Run& run) {
  const EngineOp& call = run.call;
  const Reducer reduce(run);
  const size_t most = largest_slice(run);
  const size_t longest = call.in_pieces.longest();
  if (!call.per_rank() && reduce.scale == nullptr &&
      static_cast<size_t>(run.size) * longest <= ShortCall::kMost)
    return run_short_reduce_scatter(run, reduce);
  run.expect(longest, static_cast<size_t>(run.size) * longest);
  const size_t step = std::min(most, whole_lines(longest));
  const auto rounds = static_cast<uint32_t>((longest + step - 1) / step);
  const auto slots =
      static_cast<size_t>(run.size - (reduce.scale == nullptr ? 1 : 0));
  const auto part_of = [&](int rank, uint32_t round) {
    const Piece whole = call.in_pieces[rank];
    const size_t at = std::min(whole.bytes, round * step);
    return Piece{whole.at + at, std::min(step, whole.bytes - at)};
  };
  // As in Sliced.
  const Piece first = call.in_pieces[0];
  const size_t lent =
      reduce.scale == nullptr && call.in_pieces.equal()
          ? run.lend_in({first.at, static_cast<size_t>(run.size) * first.bytes})
          : 0;
  const char* scaled[2] = {};
  for (uint32_t turn = 0; turn < rounds + 1 && !run.failed(); ++turn) {
    if (turn < rounds && lent != 0) {
      run.show_at(turn, lent);
    } else if (turn < rounds) {
      char* const block = run.prepare(turn, slots * step, true);
      if (block == nullptr) return;
      for (int to = 0; to < run.size; ++to) {
        if (to == run.rank && reduce.scale == nullptr) continue;
        char* const at = block + slot(run.rank, to, run.size) * step;
        const Piece part = part_of(to, turn);
        reduce.stage_own(at, part.at, part.bytes);
        if (to == run.rank) scaled[turn % 2] = at;
      }
      run.show_prepared(turn);
    }
    if (turn == 0) continue;
    const uint32_t round = turn - 1;
    const Piece own = part_of(run.rank, round);
    if (own.bytes != 0) {
      const void* terms[kMostRanks];
      for (int r = 0; r < run.size; ++r) {
        if (r == run.rank)
          terms[r] = reduce.scale != nullptr ? scaled[round % 2] : own.at;
        else
          terms[r] = run.look_at_either(
              r, round, slot(r, run.rank, run.size) * step,
              static_cast<size_t>(run.rank) * longest + round * step,
              own.bytes);
        if (terms[r] == nullptr) return;
      }
      reduce_to_caller(run, reduce, call.out.at + round * step, terms,
                       own.bytes);
    }
    if (turn < rounds) run.done(round);
  }
  lent != 0 ? run.finish_together() : run.finish(call.out.bytes != 0);
}

}  // namespace shm_backend
