// The number of elements that every rank of an operation gives and gets.
//
//   Layout layout = layout_of(spec);
//   layout.in_count;  // of spec.rank
#ifndef DISTWRAP_TOOLS_CLI_BENCH_LAYOUT_H_
#define DISTWRAP_TOOLS_CLI_BENCH_LAYOUT_H_

#include "bench/operation.h"
#include "bench/pattern.h"
#include "distwrap/reduce_op.h"
#include "distwrap/types.h"

#include <cstdint>
#include <vector>

namespace distwrap::bench {

// One operation at one size, as one rank sees it.
struct Spec {
  Operation op = Operation::kAllReduce;
  int rank = 0;
  int ranks = 1;
  // The larger of a rank's two buffers or, with a pattern, the largest amount
  // that a rank sends; 0 for a barrier.
  int64_t bytes = 0;
  DType dtype = DType::kF32;
  ReduceOp::Kind reduce = ReduceOp::kSum;
  int root = 0;
  Pattern pattern = {};    // for operations with counts
  int depth = kMostDepth;  // puts before a flush, for win_put_rate
};

// The bytes of one rank.
struct Traffic {
  int64_t sent = 0;      // bytes of its input
  int64_t received = 0;  // bytes of its output
  int64_t self = 0;      // bytes that it gives to itself, part of both
};

struct Layout {
  int64_t block = 0;  // elements of one rank, where ranks own equal blocks
  int64_t in_count = 0;
  int64_t out_count = 0;
  // The counts by rank and the start of each piece, for operations with counts.
  std::vector<int64_t> in_counts = {}, in_starts = {};
  std::vector<int64_t> out_counts = {}, out_starts = {};
  // The counts by sender and receiver, for all_to_all_v.
  Matrix matrix = {};
};

Layout layout_of(const Spec& spec);

// The bytes by rank, for operations with counts; otherwise empty.
std::vector<Traffic> traffic_of(const Spec& spec);

// The bytes on the link of the busiest rank. With counts, the larger of the
// bytes that it sends to and receives from other ranks; otherwise by
// bus_factor.
double bus_bytes(const Spec& spec);

// The least number of bytes that some rank has to copy: its larger buffer.
int64_t moved_bytes(const Spec& spec);

}  // namespace distwrap::bench

#endif  // DISTWRAP_TOOLS_CLI_BENCH_LAYOUT_H_
