// Reductions in which each rank reduces all elements that it needs.
#include "run.h"

#include <algorithm>

namespace shm_backend {
namespace {

// Bytes of a part when data go to one rank only.
constexpr size_t kPart = 128 << 10;

// Consecutive calls mostly use the same kernel.
dw_reduce_fn find_kernel(Comm* comm, dw_dtype dtype, uint16_t reduce) {
  KnownKernel& known = comm->kernel;
  if (known.function == nullptr || known.reduce != reduce ||
      __builtin_memcmp(&known.dtype, &dtype, sizeof dtype) != 0)
    known = {dtype, reduce,
             comm->host->reduce_kernel(comm->host->self, dtype, reduce)};
  return known.function;
}

}  // namespace

Reducer::Reducer(Run& of)
    : run(of), factor(of.call.scale), element(of.call.element), ranks(of.size) {
  uint16_t reduce = run.call.reduce;
  if (factor != nullptr) {
    scale = find_kernel(run.comm, run.call.dtype, reduce);
    reduce = DW_REDUCE_SUM;
  }
  kernel = find_kernel(run.comm, run.call.dtype, reduce);
}

void Reducer::stage_own(void* to, const void* from, size_t bytes) const {
  if (scale == nullptr) return run.comm->stage_copy(to, from, bytes);
  const void* const terms[] = {from};
  scale(to, terms, 1, bytes / element, factor);
}

void Reducer::fetch(void* out, const void* const* in, int n,
                    size_t bytes) const {
  // The inputs of several peers are read side by side anyway. With two inputs,
  // those of ranks 0 and 1.
  if (n != 2 || run.is_in_memory(run.rank == 0 ? 1 : 0, bytes))
    return (*this)(out, in, n, bytes);
  side_by_side(bytes, [&](size_t at, size_t part) {
    const void* const terms[] = {static_cast<const char*>(in[0]) + at,
                                 static_cast<const char*>(in[1]) + at};
    (*this)(static_cast<char*>(out) + at, terms, 2, part);
  });
}

void Reducer::fetch_past_caches(void* out, const void* const* in, int n,
                                size_t bytes) const {
  alignas(kLine) char piece[16 << 10];
  const void* terms[kMostRanks];
  for (size_t at = 0; at < bytes; at += sizeof piece) {
    const size_t part = std::min(sizeof piece, bytes - at);
    for (int r = 0; r < n; ++r) terms[r] = static_cast<const char*>(in[r]) + at;
    fetch(piece, terms, n, part);
    copy_past_caches(static_cast<char*>(out) + at, piece, part);
  }
}

void run_flat(Run& run) {
  const EngineOp& call = run.call;
  const Reducer reduce(run);
  const bool scan = call.kind == DW_OP_SCAN;
  const bool exclusive = (call.flags & DW_FLAG_EXCLUSIVE) != 0;
  const bool everybody = call.kind == DW_OP_ALL_REDUCE;
  // Whether any rank needs this rank's elements.
  const bool shows =
      scan ? run.rank < run.size - 1 : everybody || run.rank != call.peer;
  const int last = scan ? run.rank - (exclusive ? 1 : 0) : run.size - 1;
  const bool wants = scan ? last >= 0 : everybody || run.rank == call.peer;
  const size_t bytes = call.in.bytes;
  // The receiving rank begins before all parts have been published.
  const bool one_way = !scan && !everybody;
  if (one_way) run.expect(bytes, bytes);
  const size_t step = std::min(
      {bytes, run.comm->stage.most() / kLine * kLine, one_way ? kPart : bytes});
  // Elements that the other ranks can read in place need no copy, if they do
  // not change.
  const size_t place = shows && bytes > kInside && reduce.scale == nullptr &&
                               !(wants && call.in.at == call.out.at)
                           ? run.lend_in()
                           : 0;
  uint32_t round = 0;
  for (size_t at = 0; at < bytes; at += step, ++round) {
    const size_t part = std::min(step, bytes - at);
    const char* own = call.in.at + at;
    if (reduce.scale != nullptr) {
      char* const scaled = run.prepare(round, part);
      if (scaled == nullptr) return;
      reduce.stage_own(scaled, own, part);
      own = scaled;
      if (shows) run.show_prepared(round);
    } else if (place != 0 && part > kInside) {
      run.show_at(round, place + at);
    } else if (shows) {
      run.show(round, own, part);
    }
    if (wants) {
      const void* terms[kMostRanks];
      for (int r = 0; r <= last; ++r) {
        terms[r] = r == run.rank ? own : run.look(r, round, part);
        if (terms[r] == nullptr) return;
      }
      reduce.fetch(call.out.at + at, terms, last + 1, part);
    }
    if (at + part < bytes) run.done(round);
  }
  place != 0 ? run.finish_together() : run.finish(everybody);
}

}  // namespace shm_backend
