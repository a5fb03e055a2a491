// The state behind a MoePlan: its parts, what calls derive of them when they
// need it first, and memory that calls lend.
//
// Threads: any. Ownership: held by handles and calls; keeps the group's state.
#ifndef DISTWRAP_SRC_MOE_PLAN_STATE_H_
#define DISTWRAP_SRC_MOE_PLAN_STATE_H_

#include "base/mutex.h"
#include "group/group_state.h"
#include "moe/build_space.h"
#include "moe/moves.h"
#include "moe/plan_parts.h"
#include "moe/workspace.h"

#include <absl/status/status.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace distwrap::moe {

// The number of a new plan or request: below 2^16, and different from those
// before it, so that their messages differ.
int64_t next_plan_number();

// The ways of adding up, each with a program (sums.h).
enum class Sum : uint8_t { kBuckets, kLanes, kTree, kSlots };

class PlanState {
 public:
  PlanState() = default;
  PlanState(const PlanState&) = delete;
  PlanState& operator=(const PlanState&) = delete;

  // ---- set while the plan is made ----
  std::shared_ptr<group::GroupState> group;
  comm::BackendCommunicator* communicator = nullptr;
  PlanParts parts;
  DType id_type = DType::kI32;
  bool zero_padding = true;
  bool validate = false;      // calls compare their arguments first
  uint64_t options = 0;       // a hash
  bool equal_tokens = false;  // on all ranks
  BuildSpace build_space;
  // Equal on all ranks; for the tags of messages: the plan's, and that of its
  // first call.
  int64_t number = 0, first_call = 0;

  bool expert_major() const { return parts.form.expert_major; }
  int64_t tokens() const { return parts.routing.tokens; }
  int64_t slots() const { return parts.routing.slots; }
  int64_t rows() const { return parts.layout.rows; }
  int64_t output_rows() const {
    return std::max(parts.layout.rows, parts.layout.capacity_rows);
  }
  // A plan in the memory of an earlier one begins anew.
  void begin_anew();

  // ---- derived at first use, constant afterwards ----
  const Moves& moves(MoeDedup level);
  // Makes the moves of level kNode. False: the lists contradict each other.
  bool move_by_node();
  const Program& program(Sum sum, MoeDedup level);
  struct Accessors {
    std::vector<int64_t> per_rank, per_node, per_expert;
    std::vector<uint8_t> token_in_rank, kept, counted;
    std::vector<int32_t> serving_slots;
    std::vector<int64_t> recv_ids64;
    std::vector<int32_t> recv_ids32, pair_values, own_pair_slots;
    bool has_pair_values = false, has_own_pair_slots = false;
    bool has_counts = false, has_token_in_rank = false, has_kept = false,
         has_serving_slots = false, has_recv_ids = false;
    // Extents that views borrow.
    int64_t tokens_by_ranks[2], tokens_by_slots[2], rows_by_slots[2];
  };
  // By pair: the place of its value among the slots of all rows (rank-major
  // order), and its slot among those of all tokens.
  const std::vector<int32_t>& pair_values();
  const std::vector<int32_t>& own_pair_slots();
  TensorView counts_per_rank();
  TensorView counts_per_node();
  TensorView counts_per_expert();
  TensorView token_in_rank();
  TensorView kept();
  TensorView serving_slots();
  TensorView recv_topk_idx();

  // ---- calls ----
  // The memory of a call; `limited`: refuse more than the calls in flight.
  absl::Status lend(bool limited, std::unique_ptr<Workspace>* workspace);
  void give_back(std::unique_ptr<Workspace> workspace, bool limited);
  absl::Status prepare(int64_t row_bytes, int in_flight);
  int64_t staged_rows();
  // The bytes that are kept for later calls.
  int64_t staged_bytes();
  // The number of the next call with the plan.
  int64_t next_call();
  void count_call(const Crossing& rows, int64_t row_bytes);
  MoeTraffic traffic();
  // Shows the group's other ranks that this one has come to a call, which all
  // of them give this number. Returns the time.
  int64_t come_to(int64_t call);
  // Counts how much later the others came than `since_ns`. After `come_to`;
  // does not throw.
  void count_waits(int64_t call, int64_t since_ns);
  // The first error of a call that nobody waits for, until it is taken.
  void keep_error(const absl::Status& error);
  absl::Status take_error();

 private:
  void fill_kept() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void fill_counts() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  const Moves& moves_locked(MoeDedup level)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  base::Mutex mutex_;
  Moves moves_[3] ABSL_GUARDED_BY(mutex_);  // by level
  bool has_moves_[3] ABSL_GUARDED_BY(mutex_) = {};
  Program programs_[4][3] ABSL_GUARDED_BY(mutex_);
  bool has_program_[4][3] ABSL_GUARDED_BY(mutex_) = {};
  SumScratch sum_scratch_ ABSL_GUARDED_BY(mutex_);
  Accessors derived_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<Workspace>> idle_ ABSL_GUARDED_BY(mutex_);
  int pendings_ ABSL_GUARDED_BY(mutex_) = 0;
  int in_flight_ ABSL_GUARDED_BY(mutex_) = 2;
  MoeTraffic traffic_ ABSL_GUARDED_BY(mutex_);            // without wait_ns
  std::vector<int64_t> wait_ns_ ABSL_GUARDED_BY(mutex_);  // by rank
  absl::Status error_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace distwrap::moe

#endif  // DISTWRAP_SRC_MOE_PLAN_STATE_H_
