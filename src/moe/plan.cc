// The methods of MoePlan.
#include "base/error.h"
#include "base/exceptions.h"
#include "distwrap/moe_plan.h"
#include "moe/index_maps.h"
#include "moe/plan_state.h"

namespace distwrap {
namespace {

absl::StatusOr<DedupMaps> maps_of(const moe::PlanState& plan) {
  const moe::PlanParts& parts = plan.parts;
  const moe::Topology& topology = parts.topology;
  const int ranks = parts.ranks();
  const int lanes = static_cast<int>(topology.members(0).size());
  bool uniform = ranks % lanes == 0;
  for (int r = 0; uniform && r < ranks; ++r)
    uniform =
        topology.node_of(r) == r / lanes && topology.lane_of(r) == r % lanes;
  const int64_t experts = parts.experts.count();
  for (int64_t e = 0; uniform && e < experts; ++e)
    uniform = experts % ranks == 0 &&
              parts.experts.rank_of(e) == e / (experts / ranks);
  const auto refuse = [](Reason reason, const char* what) {
    return base::make_error({.reason = reason,
                             .what = what,
                             .op = "raw_maps",
                             .next_step = "use the plan"});
  };
  if (!uniform)
    return refuse(Reason::kTopology,
                  "maps need equal nodes and ranks and experts in order");
  if (parts.level != MoeDedup::kNode || !plan.equal_tokens)
    return refuse(Reason::kUnsupported,
                  "maps need level kNode and equally many tokens on all ranks");
  DedupMaps maps;
  moe::write_maps(
      parts,
      {ranks / lanes, lanes, plan.tokens(), static_cast<int>(experts / ranks)},
      &maps.send, &maps.forward, &maps.recv);
  return maps;
}

}  // namespace

int64_t MoePlan::tokens() const { return state_->tokens(); }
int64_t MoePlan::slots() const { return state_->slots(); }
int64_t MoePlan::recv_rows() const { return state_->rows(); }
TensorView MoePlan::recv_rows_tensor() const {
  static constexpr int64_t kOne[] = {1};
  return TensorView(&state_->parts.layout.rows, kOne).as_read_only();
}
int64_t MoePlan::output_rows() const { return state_->output_rows(); }
MoeDedup MoePlan::dedup() const { return state_->parts.level; }

TensorView MoePlan::counts_per_rank() const {
  return state_->counts_per_rank();
}
TensorView MoePlan::counts_per_node() const {
  return state_->counts_per_node();
}
TensorView MoePlan::counts_per_expert() const {
  return state_->counts_per_expert();
}
TensorView MoePlan::token_in_rank() const { return state_->token_in_rank(); }
TensorView MoePlan::kept() const { return state_->kept(); }
TensorView MoePlan::serving_slots() const { return state_->serving_slots(); }

TensorView MoePlan::expert_offsets() const {
  return TensorView(state_->parts.layout.offsets).as_read_only();
}
TensorView MoePlan::expert_counts() const {
  return TensorView(state_->parts.layout.counts).as_read_only();
}
TensorView MoePlan::src_rank() const {
  return TensorView(state_->parts.layout.src_rank).as_read_only();
}
TensorView MoePlan::src_token() const {
  return TensorView(state_->parts.layout.src_token).as_read_only();
}
TensorView MoePlan::recv_topk_idx() const { return state_->recv_topk_idx(); }
TensorView MoePlan::dropped_per_expert() const {
  return TensorView(state_->parts.dropped).as_read_only();
}

absl::StatusOr<DedupMaps> MoePlan::raw_maps() const {
  return base::guarded("raw_maps", [&] { return maps_of(*state_); });
}

MoeTraffic MoePlan::traffic() const { return state_->traffic(); }

absl::Status MoePlan::check() const { return state_->take_error(); }

int64_t MoePlan::workspace_bytes(int64_t row_bytes) const {
  return 2 * state_->staged_rows() * row_bytes;
}

absl::Status MoePlan::prepare(int64_t row_bytes, int in_flight) const {
  return base::guarded("moe_plan",
                       [&] { return state_->prepare(row_bytes, in_flight); });
}

}  // namespace distwrap
