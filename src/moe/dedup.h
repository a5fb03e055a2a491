// The raw form: calls by index maps. The ranks compare what each is about to
// send with what the others expect, and so agree on an error before any row
// moves. Then the maps are a plan like others.
//
// Threads: calls of one request one at a time. Ownership: a request is held by
// handles and calls.
#ifndef DISTWRAP_SRC_MOE_DEDUP_H_
#define DISTWRAP_SRC_MOE_DEDUP_H_

#include "moe/exchange.h"
#include "moe/index_maps.h"
#include "moe/plan_state.h"

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <atomic>
#include <memory>

namespace distwrap::moe {

class DedupState {
 public:
  std::shared_ptr<group::GroupState> group;
  MapShape shape;
  int64_t width = 0;  // elements of a token
  DType dtype = DType::kU8;
  int64_t number = 0;             // equal on all ranks
  std::atomic<int64_t> calls{0};  // equal on all ranks
};

struct DedupArguments {
  int64_t tokens = 0, width = 0, slots = 0;
  int experts = 0;
  DType dtype = DType::kU8;
  int ranks_per_node = 0;
};

absl::StatusOr<std::shared_ptr<DedupState>> begin_dedup(
    CallPlace place, const DedupArguments& arguments);

// Checks the maps of a call, here and between the ranks, and makes their plan.
// `rows`: the rows that the output or input has room for.
absl::StatusOr<std::shared_ptr<PlanState>> plan_of_maps(
    CallPlace place, DedupState& request, TensorView send, TensorView forward,
    TensorView recv, int64_t rows);

}  // namespace distwrap::moe

#endif  // DISTWRAP_SRC_MOE_DEDUP_H_
