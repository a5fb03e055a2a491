// The methods of MoePlan.
#include "base/exceptions.h"
#include "distwrap/moe_plan.h"
#include "moe/plan_state.h"

namespace distwrap {

int64_t MoePlan::tokens() const { return state_->tokens(); }
int64_t MoePlan::slots() const { return state_->slots(); }
int64_t MoePlan::recv_rows() const { return state_->rows(); }
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

MoeTraffic MoePlan::traffic() const { return state_->traffic(); }

int64_t MoePlan::workspace_bytes(int64_t row_bytes) const {
  return 2 * state_->staged_rows() * row_bytes;
}

absl::Status MoePlan::prepare(int64_t row_bytes, int in_flight) const {
  return base::guarded("moe_plan",
                       [&] { return state_->prepare(row_bytes, in_flight); });
}

}  // namespace distwrap
