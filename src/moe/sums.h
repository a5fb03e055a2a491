// The order of a combine's additions, as a program: for each result row its
// terms, and when partial sums are closed. Pure computation.
//
// kTree: the terms of a rank are added by bucket, the sums of a node's ranks by
// lane, the sums of the nodes by node. Each sum begins with its first operand.
// Threads: one thread. Ownership: the vectors keep their memory.
#ifndef DISTWRAP_SRC_MOE_SUMS_H_
#define DISTWRAP_SRC_MOE_SUMS_H_

#include "distwrap/abi/moe.h"
#include "moe/moves.h"

#include <cstdint>
#include <vector>

namespace distwrap::moe {

// Terms lie in this rank's own input, among the rows that a first hop brought
// (kept), or among those that come.
struct Program {
  std::vector<int64_t> first;  // by result row, one more at the end
  std::vector<dw_moe_term> terms;
  // By term: its weight at the source, by (token, slot) as one index, or -1.
  std::vector<int32_t> slots;

  int64_t rows() const { return static_cast<int64_t>(first.size()) - 1; }
};

// The parts of a plan that sums are made of.
struct SumInput {
  const Lists& own;      // lists of what this rank sends
  const Layout& layout;  // rows that it gets
  const Topology& topology;
  const Lists* forward = nullptr;    // with two hops
  const Lists* forwarded = nullptr;  // with two hops
  int rank = 0;
  int64_t tokens = 0, slots = 0;
};

// A term with the sums that it belongs to.
struct KeyedTerm {
  int64_t row;
  int32_t slot, rank, node;
  uint8_t from;
};
// Memory that the functions below use, for the next plan.
struct SumScratch {
  std::vector<KeyedTerm> terms;                 // terms of one row, or of all
  std::vector<int64_t> first, next;             // by token, into `terms`
  std::vector<int64_t> pairs_before;            // by row
  std::vector<int64_t> rows, pairs, last_used;  // by rank
  std::vector<int32_t> touched;                 // ranks
};

// At the rank of the experts: a row for each inbound row that travels back, in
// the order in which it came (first hop or, with two hops, second hop).
void sum_buckets(const SumInput& in, const Moves& moves, SumScratch* scratch,
                 Program* program);
// At a forwarder: a row for each row of the first hop, from those of its node.
void sum_lanes(const SumInput& in, const Moves& moves, SumScratch* scratch,
               Program* program);
// At the source: a row for each token.
void sum_nodes(const SumInput& in, const Moves& moves, SumScratch* scratch,
               Program* program);
// At the source, by slot: pairs, or with rank-major rows the ranks in the order
// of their first slot. `routing`: the routing of this rank.
void sum_slots(const SumInput& in, const Moves& moves, const Routing& routing,
               const Experts& experts, SumScratch* scratch, Program* program);

}  // namespace distwrap::moe

#endif  // DISTWRAP_SRC_MOE_SUMS_H_
