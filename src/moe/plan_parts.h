// The parts of a plan on one rank, and the steps that make them. Pure
// computation: the caller carries the messages, so a test can run all ranks of
// a job in one process.
//
// Threads: one thread until the plan is complete, then any may read it.
#ifndef DISTWRAP_SRC_MOE_PLAN_PARTS_H_
#define DISTWRAP_SRC_MOE_PLAN_PARTS_H_

#include "distwrap/moe_plan.h"
#include "moe/inbound.h"
#include "moe/messages.h"
#include "moe/moves.h"
#include "moe/routing.h"
#include "moe/sums.h"
#include "moe/topology.h"

#include <cstdint>
#include <string>
#include <vector>

namespace distwrap::moe {

struct PlanParts {
  // The arguments of the caller.
  int rank = 0;
  Topology topology;
  Experts experts;
  Form form;
  MoeOverflow overflow = MoeOverflow::kExact;
  MoeDedup level = MoeDedup::kAuto;
  std::vector<uint8_t> masked;  // by rank; empty: none
  Routing routing;

  // The results of the steps.
  Lists wanted, own;  // before and after pairs are dropped
  Inbound inbound;
  Layout layout;
  std::vector<int64_t> dropped;  // by expert, on all ranks
  Lists forward;                 // with two hops
  Inbound forwarded;
  Crossings crossings;        // rows of what is sent
  int64_t pairs_dropped = 0;  // pairs of this rank's tokens
  MoveScratch scratch;

  int ranks() const { return topology.ranks(); }
  int64_t buckets() const {
    return static_cast<int64_t>(experts.of_rank(rank).size());
  }
  bool has_verdicts() const { return form.has_capacity() || !masked.empty(); }

  // The lists of the routing, and what they cross.
  void make_lists();
  // Takes the level that the model expects to be fastest, from the crossings of
  // all ranks.
  void choose_level(absl::Span<const Crossings> all);
  // After round 1: drops what does not fit. `local`: by bucket.
  Needed judge(std::vector<int64_t>* local);
  // After round 2: `kept` is by pair of `wanted`.
  void apply(absl::Span<const uint8_t> kept);
  // Without a round 2.
  void keep_all();
  void lay_out() { inbound.lay_out(form, buckets(), &layout); }
  void make_forward_lists() {
    moe::make_forward_lists(own, topology, rank, &scratch, &forward);
  }

  SumInput sum_input() const {
    return {.own = own,
            .layout = layout,
            .topology = topology,
            .forward = &forward,
            .forwarded = &forwarded.lists(),
            .rank = rank,
            .tokens = routing.tokens,
            .slots = routing.slots};
  }

 private:
  ListMaker maker_;
};

}  // namespace distwrap::moe

#endif  // DISTWRAP_SRC_MOE_PLAN_PARTS_H_
