// Zero-copy reductions: a rank reads the parts of the others' inputs that it
// needs where they lie, and only results are copied to be published. A rank has
// read another's input when it publishes the result or ends the operation.
#include "direct.h"

#include "run.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace shm_backend {
namespace {

// Scratch memory for pieces of the other ranks: with two ranks there are few
// calls of the kernel, each of which costs as much as a copy of 16 KiB.
constexpr size_t kScratch = 128 << 10;
// Bytes that are reduced before they are copied to the second place.
constexpr size_t kStep = 2 << 10;
// A rank's share of a chunk, and the number of chunks that it may be ahead. It
// needs only the inputs of the others, so no rank waits for one that was
// delayed.
constexpr size_t kSlice = 64 << 10;
constexpr size_t kAhead = 8;
// Bytes of a part that is read from either end; a multiple of the pieces that
// two ranks copy.
constexpr size_t kPart = 128 << 10;
// Bytes of staging for results. More would not fit the second-level cache.
constexpr size_t kRing = 2 << 20;

// Where a rank's elements lie: a place in its heap, or an address in its
// process, in which the bit kPlace is never set.
using Where = uint64_t;
constexpr Where kPlace = Where{1} << 63;

Where where_of(const char* at, size_t place) {
  return place != 0 ? kPlace | place : reinterpret_cast<uintptr_t>(at);
}

// The inputs of all ranks, and what reduces them.
class Terms {
 public:
  explicit Terms(Run& run)
      : run_(run), reduce_(run), direct_(run.comm->direct) {}

  // Finds `bytes` of another rank's input. False when the call has failed.
  bool find(int rank, Where where, size_t bytes) {
    if ((where & kPlace) == 0) {
      copies_ = true;
      addresses_[rank] = where;
      return true;
    }
    run_.borrow();
    mapped_[rank] = run_.comm->room.find(rank, where & ~kPlace, bytes);
    if (mapped_[rank] == nullptr) run_.fail_missing(rank, where & ~kPlace);
    return mapped_[rank] != nullptr;
  }

  // Reduces `bytes` of all inputs from offset `begin` to `first` and copies the
  // result to `second`, which may be NULL. False when the call has failed.
  bool reduce(char* first, char* second, const char* own, size_t begin,
              size_t bytes) {
    const size_t most = copies_ ? direct_.piece_bytes() : bytes;
    for (size_t at = 0; at < bytes; at += most) {
      const size_t part = std::min(most, bytes - at);
      const char* terms[kMostRanks];
      char* piece = direct_.scratch();
      for (int r = 0; r < run_.size; ++r) {
        if (r == run_.rank) {
          terms[r] = own + at;
        } else if (mapped_[r] != nullptr) {
          terms[r] = mapped_[r] + begin + at;
        } else {
          // At the same offset in its line as the source (`trails`).
          const uint64_t from = addresses_[r] + begin + at;
          char* const to = piece + from % kLine;
          if (!read(to, r, from, part)) return false;
          terms[r] = to;
          piece += most + kLine;
        }
      }
      give(first + at, second == nullptr ? nullptr : second + at, terms, part);
    }
    return true;
  }

 private:
  void give(char* first, char* second, const char* const* terms,
            size_t bytes) const {
    const void* here[kMostRanks];
    const size_t step = second == nullptr ? bytes : kStep;
    for (size_t at = 0; at < bytes; at += step) {
      const size_t part = std::min(step, bytes - at);
      for (int r = 0; r < run_.size; ++r) here[r] = terms[r] + at;
      reduce_(first + at, here, run_.size, part);
      if (second != nullptr) run_.keep(second + at, first + at, part);
    }
  }

  // A rank that has given up says so before its memory is used again.
  bool read(char* to, int rank, uint64_t from, size_t bytes) {
    const Reach& reach = run_.comm->reaches[static_cast<size_t>(rank)];
    const Reach::Got got = reach.read(to, from, bytes);
    if (run_.comm->room.state(rank) != State::kOpen || got == Reach::Got::kGone)
      run_.fail_left(rank);
    else if (got == Reach::Got::kNonsense)
      run_.fail_nonsense(rank);
    return !run_.failed();
  }

  Run& run_;
  const Reducer reduce_;
  const Direct& direct_;
  bool copies_ = false;
  const char* mapped_[kMostRanks] = {};
  uint64_t addresses_[kMostRanks] = {};
};

// A rank's message to all others before any input is read.
struct Told {
  Where input;
  uint64_t readable;  // nonzero: its input does not change before the end
};
static_assert(sizeof(Told) <= kInside);

// Publishes `mine` in round 0 and reads the others'. False when the call has
// failed.
bool tell(Run& run, const Told& mine, Told* all) {
  run.lend();
  run.show(0, &mine, sizeof mine);
  for (int r = 0; r < run.size; ++r) {
    all[r] = mine;
    if (r == run.rank) continue;
    const char* const theirs = run.look(r, 0, sizeof mine);
    if (theirs == nullptr) return false;
    std::memcpy(&all[r], theirs, sizeof mine);
  }
  run.done(0);
  return true;
}

// Large all_reduce and reduce: each rank reduces its share of every chunk and
// publishes the result.
class Shares {
 public:
  explicit Shares(Run& run)
      : run_(run),
        call_(run.call),
        terms_(run),
        all_(call_.kind == DW_OP_ALL_REDUCE),
        takes_(all_ || call_.peer == run.rank),
        slice_(std::min(kSlice, run.comm->stage.most() / kLine * kLine)),
        chunk_(slice_ * static_cast<size_t>(run.size)),
        chunks_((call_.in.bytes + chunk_ - 1) / chunk_),
        backwards_(call_.in.bytes < Direct::kFirstShared &&
                   run.comm->direct.turn()) {}

  void go(const Told* told) {
    for (int r = 0; r < run_.size; ++r)
      if (r != run_.rank && !terms_.find(r, told[r].input, call_.in.bytes))
        return;
    if (all_) out_ = run_.lend_out();
    // Unread results and one more have to fit the ring.
    const size_t ahead =
        std::clamp(run_.ring() / (2 * slice_), size_t{1}, kAhead);
    for (size_t turn = 0; turn < chunks_ + ahead && !run_.failed(); ++turn) {
      if (turn < chunks_) reduce_share(turn);
      if (turn < ahead) continue;
      if (turn - ahead < chunks_ && takes_) take_results(turn - ahead);
      run_.done(results_of(turn - ahead));
    }
    all_&& out_ == 0 ? run_.finish(true) : run_.finish_together();
  }

 private:
  static uint32_t results_of(size_t chunk) {
    return static_cast<uint32_t>(chunk + 1);
  }
  struct Share {
    size_t at, bytes;
  };
  Share share(size_t number, int rank) const {
    const size_t begin = (backwards_ ? chunks_ - 1 - number : number) * chunk_;
    const size_t bytes = std::min(chunk_, call_.in.bytes - begin);
    const auto n = static_cast<size_t>(run_.size);
    const size_t each = whole_lines((bytes + n - 1) / n);
    const size_t at = std::min(bytes, static_cast<size_t>(rank) * each);
    return {begin + at, std::min(each, bytes - at)};
  }

  void reduce_share(size_t number) {
    const Share own = share(number, run_.rank);
    if (own.bytes == 0) return;
    const char* const mine = call_.in.at + own.at;
    if (!all_ && takes_) {  // no other rank needs it
      terms_.reduce(call_.out.at + own.at, nullptr, mine, own.at, own.bytes);
      return;
    }
    if (out_ != 0) {  // published where it lies
      if (terms_.reduce(call_.out.at + own.at, nullptr, mine, own.at,
                        own.bytes))
        run_.show_at(results_of(number), out_ + own.at);
      return;
    }
    char* const block = run_.prepare(results_of(number), own.bytes, true);
    if (block == nullptr) return;
    char* const kept = takes_ ? call_.out.at + own.at : nullptr;
    const bool past = kept != nullptr && run_.comm->goes_past(own.bytes);
    if (!terms_.reduce(past ? kept : block, past ? nullptr : kept, mine, own.at,
                       own.bytes))
      return;
    if (past) copy_past_caches(block, kept, own.bytes);
    run_.show_prepared(results_of(number));
  }

  void take_results(size_t number) {
    for (int r = 0; r < run_.size; ++r) {
      const Share to = share(number, r);
      if (r == run_.rank || to.bytes == 0) continue;
      const char* const from =
          run_.look(r, results_of(number), Run::kStaged, 0, to.bytes);
      if (from == nullptr) return;
      run_.take(r, call_.out.at + to.at, from, to.bytes);
    }
  }

  Run& run_;
  const EngineOp& call_;
  Terms terms_;
  const bool all_, takes_;
  const size_t slice_, chunk_, chunks_;
  const bool backwards_;
  size_t out_ = 0;  // place of the output in the heap
};

// The messages of all ranks.
struct Inputs {
  explicit Inputs(const Run& run) : size(run.size) {}
  const int size;
  Told told[kMostRanks];
  bool all_stay() const {
    return std::all_of(told, told + size,
                       [](const Told& one) { return one.readable == 1; });
  }
};

Told told_by(Run& run) {
  const EngineOp& call = run.call;
  const bool takes = call.kind == DW_OP_ALL_REDUCE || run.rank == call.peer;
  return {where_of(call.in.at, run.lend_in()),
          !takes || call.in.at != call.out.at};
}

// Each rank that needs the result reduces all elements, as in run_flat.
void reduce_whole(Run& run, const Inputs& inputs) {
  const EngineOp& call = run.call;
  Terms terms(run);
  for (int r = 0; r < run.size; ++r)
    if (r != run.rank && !terms.find(r, inputs.told[r].input, call.in.bytes))
      return;
  const bool backwards = run.comm->direct.turn();
  const size_t parts = (call.in.bytes + kPart - 1) / kPart;
  const bool takes = call.kind == DW_OP_ALL_REDUCE || run.rank == call.peer;
  for (size_t i = 0; i < parts && takes; ++i) {
    const size_t at = (backwards ? parts - 1 - i : i) * kPart;
    if (!terms.reduce(call.out.at + at, nullptr, call.in.at + at, at,
                      std::min(kPart, call.in.bytes - at)))
      return;
  }
  run.finish_together();
}

}  // namespace

bool Direct::prepare(int size) {
  const auto others = static_cast<size_t>(size - 1);
  piece_bytes_ = kScratch / others / kLine * kLine;
  scratch_.reset(static_cast<char*>(
      std::aligned_alloc(kLine, (piece_bytes_ + kLine) * others)));
  return scratch_ != nullptr;
}

void run_direct(Run& run) {
  const size_t bytes = run.call.in.bytes;
  Inputs inputs(run);
  if (!tell(run, told_by(run), inputs.told)) return;
  // Two ranks read equally much of each other with both algorithms.
  if (run.size == 2 && bytes < Direct::kFirstShared && inputs.all_stay())
    return reduce_whole(run, inputs);
  run.expect(bytes, bytes, kRing);
  Shares(run).go(inputs.told);
}

void run_direct_reduce_scatter(Run& run) {
  const EngineOp& call = run.call;
  const auto n = static_cast<size_t>(run.size);
  // Each rank alone knows where its part for another rank lies.
  Where mine[kMostRanks];
  const Piece first = call.in_pieces[0];
  const size_t place =
      call.in_pieces.equal() ? run.lend_in({first.at, n * first.bytes}) : 0;
  for (int r = 0; r < run.size; ++r) {
    const char* const at = call.in_pieces[r].at;
    mine[r] = where_of(
        at, place == 0 ? 0 : place + static_cast<size_t>(at - first.at));
  }
  run.lend();
  run.show(0, mine, n * sizeof(Where));
  const Piece own = call.in_pieces[run.rank];
  Terms terms(run);
  for (int r = 0; r < run.size; ++r) {
    if (r == run.rank) continue;
    const char* const theirs =
        run.look(r, 0, n * sizeof(Where),
                 static_cast<size_t>(run.rank) * sizeof(Where), sizeof(Where));
    if (theirs == nullptr) return;
    Where where;
    std::memcpy(&where, theirs, sizeof where);
    if (!terms.find(r, where, own.bytes)) return;
  }
  terms.reduce(call.out.at, nullptr, own.at, 0, own.bytes);
  run.finish_together();
}

}  // namespace shm_backend
