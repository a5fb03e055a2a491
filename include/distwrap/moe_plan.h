// The plan of a mixture-of-experts exchange, and the options of its calls
// (moe.h).
//
// Threads: a plan may be read by any thread and used by several calls at a
// time. Ownership: MoePlan is a counted handle; calls that use the plan keep
// it. Views that it returns are read-only and valid as long as the plan.
//
//   auto plan = distwrap::moe_plan(topk, {.num_experts = 8});
//   plan->recv_rows();  // M, the rows that this rank's experts get
//
// R ranks, T tokens of this rank, K slots of a token, X experts, E experts of
// this rank ("buckets"), M rows of this rank's output. Shapes are in
// parentheses. docs/moe.md draws the layouts.
#ifndef DISTWRAP_MOE_PLAN_H_
#define DISTWRAP_MOE_PLAN_H_

#include "distwrap/export.h"
#include "distwrap/tensor_view.h"
#include "distwrap/work.h"

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <absl/types/span.h>

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace distwrap {

namespace moe {
class PendingState;
class PlanState;
}  // namespace moe

// How many copies of a token travel: one for each expert, for each rank or for
// each node that wants it. kAuto takes the level that a model of the links
// expects to be fastest, the same on all ranks. The outputs are equal.
enum class MoeDedup : uint8_t { kAuto, kNone, kRank, kNode };

// kRankMajor: one row for each (token, destination rank), by source rank and
// token. kExpertMajor: one row for each (token, expert), by bucket, source rank
// and token.
enum class MoeLayout : uint8_t { kRankMajor, kExpertMajor };

// Where the rows of bucket b begin in expert-major order. kPacked: behind those
// of b - 1, aligned. kFixed: at row b * align_up(expert_capacity).
enum class MoeBases : uint8_t { kPacked, kFixed };

// The fate of pairs beyond a capacity. kExact: there is none.
// kCapacityDrop: the lowest (source rank, token) are kept. kCapacityError:
// kCapacity on all ranks, and nothing is written.
enum class MoeOverflow : uint8_t { kExact, kCapacityDrop, kCapacityError };

// Equal on all ranks. The spans are borrowed for the call.
struct MoeOptions {
  // X. Expert e is on rank e / (X / R), unless `expert_to_rank` (X) says
  // otherwise; without that, X is a multiple of R.
  int64_t num_experts = 0;
  absl::Span<const int32_t> expert_to_rank = {};
  MoeDedup dedup = MoeDedup::kAuto;
  MoeLayout layout = MoeLayout::kRankMajor;
  // Expert-major only: each bucket has a multiple of this many rows, and the
  // added rows are set to zero, or left as they are.
  int64_t alignment = 1;
  bool zero_padding = true;
  MoeBases bases = MoeBases::kPacked;
  MoeOverflow overflow = MoeOverflow::kExact;
  // Pairs of one expert, and rows of one rank's output (padding included); 0:
  // no limit. At least one is set with a capacity policy, none with kExact.
  int64_t expert_capacity = 0, row_capacity = 0;
  // A limit of T; 0: none.
  int64_t max_tokens = 0;
  // Ranks that do not call: pairs of their experts are dropped.
  absl::Span<const int> masked_ranks = {};
  // By rank a number of its node; empty: the hosts of the group.
  absl::Span<const int32_t> node_of = {};
  // Each dispatch and combine compares its arguments on all ranks before
  // anything is sent, at the cost of one short exchange: a fault of one rank is
  // an error on all. Check::kFull does the same for all plans.
  bool validate = false;
};

// Rows, a token for one link, as the table of levels in docs/moe.md counts
// them, and their bytes. Of this rank as a source.
struct MoeTraffic {
  // The rows of the last call with the plan; before the first, of a dispatch.
  int64_t inter_rows = 0, intra_rows = 0, local_rows = 0;
  // The rows that a dispatch without deduplication sends between nodes.
  int64_t naive_inter_rows = 0;
  // The bytes of the last call: rows times (payload + side rows + 4 bytes).
  int64_t bytes_inter = 0, bytes_intra = 0;
  int64_t dropped = 0;  // pairs of this rank's tokens
  int64_t execs = 0;    // calls so far
  // By rank: nanoseconds by which it came to the calls so far later than this
  // rank began to wait. 0 for ranks of other hosts, whose clocks are others.
  std::vector<int64_t> wait_ns;
};

// The maps of one rank in the raw form (moe_raw.h).
struct DedupMaps {
  std::vector<int32_t> send, forward, recv;
};

class DISTWRAP_EXPORT MoePlan {
 public:
  // No plan.
  MoePlan() = default;
  explicit MoePlan(std::shared_ptr<moe::PlanState> state)
      : state_(std::move(state)) {}
  explicit operator bool() const { return state_ != nullptr; }
  friend bool operator==(const MoePlan&, const MoePlan&) = default;

  // The methods below need a plan that exists.

  int64_t tokens() const;               // T
  int64_t slots() const;                // K
  int64_t recv_rows() const;            // M
  TensorView recv_rows_tensor() const;  // M in the calls' memory, (1) i64
  // The rows that an output and an input of a combine have to have: M, or with
  // a capacity policy the capacity.
  int64_t output_rows() const;
  MoeDedup dedup() const;  // the level, never kAuto

  // Counts of what this rank sends, without what was dropped: rows by rank and
  // tokens by node, pairs by expert. (R), (N), (X) i64.
  TensorView counts_per_rank() const;
  TensorView counts_per_node() const;
  TensorView counts_per_expert() const;
  // Whether a rank gets the token, and which slots are served: those that
  // are not unused, repeated or dropped. (T,R), (T,K) bool.
  TensorView token_in_rank() const;
  TensorView kept() const;
  // The slot whose pair serves a slot: its own number, or for a repeated expert
  // that of the token's first slot with the expert; -1 for an unused slot and a
  // dropped pair. (T,K) i32. The gradient of a slot's weight is that of the
  // pair's.
  TensorView serving_slots() const;
  // The first row and the number of rows of each of this rank's buckets,
  // without padding. (E+1), (E) i64.
  TensorView expert_offsets() const;
  TensorView expert_counts() const;
  // Source rank and the source's token of each output row; -1 in padding.
  // (output_rows) i32.
  TensorView src_rank() const;
  TensorView src_token() const;
  // Rank-major: the bucket of each slot of a row's token, -1 where the expert
  // is elsewhere or unused. (M,K), in the type of the ids. Empty in
  // expert-major order.
  TensorView recv_topk_idx() const;
  // Pairs that were dropped, by expert; equal on all ranks. (X) i64.
  TensorView dropped_per_expert() const;

  // The maps of alltoallv_dedup (moe_raw.h) that move what the plan moves: for
  // level kNode, equal T on all ranks, and experts and ranks numbered as there.
  // kTopology, kUnsupported.
  absl::StatusOr<DedupMaps> raw_maps() const;

  MoeTraffic traffic() const;
  // The first error, since the last check, of a call that ended without a
  // caller who waited for it: an asynchronous one, or a MoePending that was
  // dropped.
  absl::Status check() const;
  // The bytes of staging memory of one call with rows of `row_bytes`.
  int64_t workspace_bytes(int64_t row_bytes) const;
  // Allocates the memory of `in_flight` calls at a time with rows of at most
  // `row_bytes`, side rows included. More pendings than `in_flight` are refused
  // afterwards. kInvalidArgument, kOutOfMemory.
  absl::Status prepare(int64_t row_bytes, int in_flight = 2) const;

  const std::shared_ptr<moe::PlanState>& state() const { return state_; }

 private:
  std::shared_ptr<moe::PlanState> state_;
};

// Rows that travel with the tokens of a dispatch.
struct SideChannel {
  enum class Kind : uint8_t { kRows, kWeights };
  // Any row of a token, such as scales: (T,..) to (M,..), copied bit by bit.
  SideChannel(TensorView from, TensorView to) : in(from), out(to) {}
  // Weights of the slots: (T,K) f32 to rank-major (M,K), 0 where recv_topk_idx
  // is -1, or to expert-major (M). A repeated expert has the sum of its slots'
  // weights.
  static SideChannel weights(TensorView from, TensorView to) {
    SideChannel channel(from, to);
    channel.kind = Kind::kWeights;
    return channel;
  }

  TensorView in, out;
  Kind kind = Kind::kRows;
};

// kAtExpert: each row is multiplied by its weight, (M) f32, on the expert's
// rank. kAtSource: by the weight of its slot, (T,K) f32, on the token's rank.
// Expert-major order only.
enum class MoeWeighting : uint8_t { kNone, kAtExpert, kAtSource };

// kTree: the rows of a token are added by bucket, the sums of a node's ranks by
// lane, and those by node. kTopK: by slot, without partial sums.
enum class MoeOrder : uint8_t { kTree, kTopK };

struct CombineOptions {
  MoeWeighting weighting = MoeWeighting::kNone;
  TensorView weights = {};
  // At most two tensors (T,H) of the output's type, added first.
  absl::Span<const TensorView> bias = {};
  MoeOrder order = MoeOrder::kTree;
  // Partial sums travel in f32, so that the bits of the result depend on the
  // inputs and the node layout only.
  bool reproducible = false;
  // Values that go back to their slots: `in` rank-major (M,K) or expert-major
  // (M), `out` (T,K) of the same type; 0 for slots that were not served.
  struct Return {
    TensorView in, out;
  };
  absl::Span<const Return> returns = {};
};

// A dispatch or combine whose sends are under way. Dropping it unfinished
// finishes it, within its deadline.
class DISTWRAP_EXPORT MoePending {
 public:
  MoePending();  // none
  explicit MoePending(std::unique_ptr<moe::PendingState> state);
  MoePending(MoePending&& other) noexcept;
  MoePending& operator=(MoePending&& other) noexcept;
  ~MoePending();

  // Waits for the rows and writes the outputs, in the calling thread.
  // kAlreadySubmitted the second time.
  absl::StatusOr<Work> finish();

 private:
  std::unique_ptr<moe::PendingState> state_;
};

}  // namespace distwrap

#endif  // DISTWRAP_MOE_PLAN_H_
