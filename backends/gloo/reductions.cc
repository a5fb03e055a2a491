// Reductions. Every block is reduced at one rank, which receives all ranks'
// parts of it and reduces them together in the order of the ranks. The result
// has the same bits on every rank and in every run, and 16-bit floats are
// rounded once.
//
// Blocks are sent in segments, so that one segment is reduced while the next
// one arrives, and scratch memory stays small. A reduced segment is passed on
// at once.
#include "run.h"
#include "sdk/fail.h"

#include <algorithm>

namespace gloo_backend {
namespace {

constexpr size_t kAlignment = 64;
constexpr size_t kSegmentBytes = size_t{1024} * 1024;
constexpr size_t kScratchBytes = size_t{2} * 1024 * 1024;  // approximate limit

// Up to this size over all ranks, every rank sends its whole input: more bytes
// than necessary, but one step instead of two.
constexpr size_t kWholeBytes = size_t{64} * 1024;

size_t round_up(size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

int32_t no_scratch(dw_error* error) {
  return dw_fail(error, DW_RESOURCE_EXHAUSTED, DW_REASON_OUT_OF_MEMORY, -1, 0,
                 "gloo: no scratch memory for a reduction");
}

class Reducer {
 public:
  explicit Reducer(const Run& run)
      : run_(run),
        kernel_(run.comm->host->reduce_kernel(run.comm->host->self,
                                              run.call.dtype, run.call.reduce)),
        ranks_(run.size) {
    run.desk.parts.resize(static_cast<size_t>(run.size));
  }

  void part(int rank, const char* at) const {
    run_.desk.parts[static_cast<size_t>(rank)] = at;
  }
  void reduce(char* to, size_t bytes) const {
    kernel_(to, run_.desk.parts.data(), run_.desk.parts.size(),
            bytes / run_.call.element, &ranks_);
  }

 private:
  const Run& run_;
  const dw_reduce_fn kernel_;
  const int64_t ranks_;  // divisor of an average
};

// All ranks, or the root alone, receive the whole input of all others. The
// output may be the input, so it is written only after the input has been sent.
int32_t reduce_whole(const Run& run, bool everybody, dw_error* error) {
  const Piece in = run.call.in;
  const bool takes = everybody || run.is_root();
  const size_t stride = round_up(in.bytes);
  char* scratch = nullptr;
  if (takes && run.size > 1) {
    scratch = run.desk.scratch.take(run.comm->host,
                                    static_cast<size_t>(run.size - 1) * stride);
    if (scratch == nullptr) return no_scratch(error);
  }
  const auto place = [&](int d) {
    return scratch + static_cast<size_t>(d - 1) * stride;
  };
  for (int d = 1; d < run.size && takes; ++d)
    run.receive(run.before(d), {place(d), in.bytes});
  if (everybody)
    for (int d = 1; d < run.size; ++d) run.send(run.after(d), in);
  else if (!takes)
    run.send(run.call.peer, in);
  for (int d = 1; d < run.size && takes; ++d)
    run.wait_received(run.before(d), in);
  if (everybody)
    for (int d = 1; d < run.size; ++d) run.wait_sent(run.after(d), in);
  else if (!takes)
    run.wait_sent(run.call.peer, in);
  if (!takes) return DW_OK;
  const Reducer reducer(run);
  reducer.part(run.rank, in.at);
  for (int d = 1; d < run.size; ++d) reducer.part(run.before(d), place(d));
  reducer.reduce(run.call.out.at, in.bytes);
  return DW_OK;
}

// Every rank receives its block of all ranks' inputs and reduces it.
class Exchange {
 public:
  Exchange(const Run& run, const Pieces& blocks)
      : run_(run),
        reducer_(run),
        blocks_(blocks),
        own_(blocks[run.rank]),
        segment_(segment_of(run.size)),
        stride_(std::min(segment_, round_up(own_.bytes))) {}

  // The number of segments, as the rank of the block computes it.
  size_t segments(Piece block) const {
    return (block.bytes + segment_ - 1) / segment_;
  }
  Piece part(Piece block, size_t s) const {
    return {block.at + s * segment_,
            std::min(segment_, block.bytes - s * segment_)};
  }

  // Reduces into `to` or, when that is NULL, into scratch memory. `reduced`
  // gets each segment; `reusable` is called before the memory of the segment
  // before the last one is used again.
  template <typename Reduced, typename Reusable>
  int32_t run(char* to, const Reduced& reduced, const Reusable& reusable,
              dw_error* error) {
    const size_t count = segments(own_);
    const size_t need = std::min<size_t>(count, 2) * others() * stride_;
    if (need != 0) {
      scratch_ = run_.desk.scratch.take(run_.comm->host, need);
      if (scratch_ == nullptr) return no_scratch(error);
    }
    if (count != 0) receive(0);
    for (int d = 1; d < run_.size; ++d) send(run_.after(d));
    for (size_t s = 0; s < count; ++s) {
      if (s + 1 < count) {
        if (s != 0) reusable();
        receive(s + 1);
      }
      const Piece segment = part(own_, s);
      for (int d = 1; d < run_.size; ++d)
        run_.wait_received(run_.before(d), segment);
      reduced(reduce(segment, s, to));
    }
    for (int d = 1; d < run_.size; ++d) wait_sent(run_.after(d));
    return DW_OK;
  }

 private:
  static size_t segment_of(int size) {
    const size_t share =
        kScratchBytes / (2 * static_cast<size_t>(std::max(size - 1, 1)));
    return std::clamp(share / kAlignment * kAlignment, kSegmentBytes / 32,
                      kSegmentBytes);
  }
  size_t others() const { return static_cast<size_t>(run_.size - 1); }

  void send(int peer) const {
    const Piece block = blocks_[peer];
    for (size_t s = 0; s < segments(block); ++s)
      run_.send(peer, part(block, s));
  }
  void wait_sent(int peer) const {
    const Piece block = blocks_[peer];
    for (size_t s = 0; s < segments(block); ++s)
      run_.wait_sent(peer, part(block, s));
  }

  char* place(int distance, size_t s) const {
    return scratch_ +
           ((s % 2) * others() + static_cast<size_t>(distance - 1)) * stride_;
  }
  void receive(size_t s) const {
    for (int d = 1; d < run_.size; ++d)
      run_.receive(run_.before(d), {place(d, s), part(own_, s).bytes});
  }

  Piece reduce(Piece segment, size_t s, char* to) const {
    char* const out = to != nullptr ? to + s * segment_ : place(1, s);
    reducer_.part(run_.rank, segment.at);
    for (int d = 1; d < run_.size; ++d)
      reducer_.part(run_.before(d), place(d, s));
    reducer_.reduce(out, segment.bytes);
    return {out, segment.bytes};
  }

  const Run& run_;
  const Reducer reducer_;
  const Pieces& blocks_;
  const Piece own_;
  const size_t segment_;
  const size_t stride_;
  char* scratch_ = nullptr;
};

constexpr auto kNothing = [] {};

// Divides a buffer into a block of whole elements for each rank; the last
// blocks may be empty.
void divide(Piece all, int ranks, Pieces* blocks) {
  const auto n = static_cast<size_t>(ranks);
  const size_t most = round_up((all.bytes + n - 1) / n);
  Piece* const list = blocks->set_list(n);
  for (size_t r = 0; r < n; ++r) {
    const size_t begin = std::min(r * most, all.bytes);
    list[r] = {all.at + begin, std::min(most, all.bytes - begin)};
  }
}

bool is_small(const Run& run) {
  return run.size == 1 ||
         run.call.in.bytes <= kWholeBytes / static_cast<size_t>(run.size);
}

// Receives the results of a block, in the segments in which they are sent.
void receive_results(const Run& run, const Exchange& exchange, int peer,
                     Piece block) {
  for (size_t s = 0; s < exchange.segments(block); ++s)
    run.receive(peer, exchange.part(block, s), 1);
}

void wait_for_results(const Run& run, const Exchange& exchange, int peer,
                      Piece block) {
  for (size_t s = 0; s < exchange.segments(block); ++s)
    run.wait_received(peer, exchange.part(block, s), 1);
}

// The place of block `rank` in the output.
Piece result(const Run& run, int rank) {
  const Piece block = run.desk.blocks[rank];
  return {run.call.out.at + (block.at - run.call.in.at), block.bytes};
}

}  // namespace

int32_t reduce_and_scatter(const Run& run, dw_error* error) {
  return Exchange(run, run.call.in_pieces)
      .run(
          run.call.out.at, [](Piece) {}, kNothing, error);
}

// In place, a result overwrites a part of the input, which must have been sent
// before.
int32_t reduce_to_all(const Run& run, dw_error* error) {
  if (is_small(run)) return reduce_whole(run, true, error);
  divide(run.call.in, run.size, &run.desk.blocks);
  Exchange exchange(run, run.desk.blocks);
  const Piece own = result(run, run.rank);
  for (int d = 1; d < run.size; ++d)
    receive_results(run, exchange, run.before(d), result(run, run.before(d)));
  const int32_t code = exchange.run(
      own.at,
      [&](Piece segment) {
        for (int d = 1; d < run.size; ++d) run.send(run.after(d), segment, 1);
      },
      kNothing, error);
  if (code != DW_OK) return code;
  for (int d = 1; d < run.size; ++d)
    wait_for_results(run, exchange, run.before(d), result(run, run.before(d)));
  for (int d = 1; d < run.size; ++d)
    for (size_t s = 0; s < exchange.segments(own); ++s)
      run.wait_sent(run.after(d), exchange.part(own, s), 1);
  return DW_OK;
}

int32_t reduce_to_root(const Run& run, dw_error* error) {
  if (is_small(run)) return reduce_whole(run, false, error);
  divide(run.call.in, run.size, &run.desk.blocks);
  Exchange exchange(run, run.desk.blocks);
  if (run.is_root()) {
    for (int d = 1; d < run.size; ++d)
      receive_results(run, exchange, run.before(d), result(run, run.before(d)));
    const int32_t code = exchange.run(
        result(run, run.rank).at, [](Piece) {}, kNothing, error);
    if (code != DW_OK) return code;
    for (int d = 1; d < run.size; ++d)
      wait_for_results(run, exchange, run.before(d),
                       result(run, run.before(d)));
    return DW_OK;
  }
  const int root = run.call.peer;
  size_t sent = 0;
  const auto wait_for_one = [&] {
    run.desk.lanes[1].to(root).finish(Direction::kSend);
    --sent;
  };
  const int32_t code = exchange.run(
      nullptr,
      [&](Piece segment) {
        run.send(root, segment, 1);
        ++sent;
      },
      wait_for_one, error);
  while (code == DW_OK && sent != 0) wait_for_one();
  return code;
}

}  // namespace gloo_backend
