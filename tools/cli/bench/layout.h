// How many elements every rank of an operation brings and gets.
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
  // The larger of a rank's two buffers, with a pattern the largest sent; a
  // barrier has 0.
  int64_t bytes = 0;
  DType dtype = DType::kF32;
  ReduceOp::Kind reduce = ReduceOp::kSum;
  int root = 0;
  Pattern pattern = {};    // of operations with counts
  int depth = kMostDepth;  // of win_put_rate: puts to a flush
};

// Bytes of one rank.
struct Traffic {
  int64_t sent = 0;      // its input
  int64_t received = 0;  // its output
  int64_t self = 0;      // of both, what it gives to itself
};

struct Layout {
  int64_t block = 0;  // elements of one rank, where ranks own equal blocks
  int64_t in_count = 0;
  int64_t out_count = 0;
  // By rank, and where each piece starts; of operations with counts.
  std::vector<int64_t> in_counts = {}, in_starts = {};
  std::vector<int64_t> out_counts = {}, out_starts = {};
  // Of all_to_all_v, by sender and receiver.
  Matrix matrix = {};
};

Layout layout_of(const Spec& spec);

// By rank, of operations with counts; else empty.
std::vector<Traffic> traffic_of(const Spec& spec);

// Bytes that cross the busiest rank's link: with counts the larger of what it
// sends to and receives from others, its own part left out; else by
// bus_factor.
double bus_bytes(const Spec& spec);

// The least that some rank has to copy: its larger buffer.
int64_t moved_bytes(const Spec& spec);

}  // namespace distwrap::bench

#endif  // DISTWRAP_TOOLS_CLI_BENCH_LAYOUT_H_
